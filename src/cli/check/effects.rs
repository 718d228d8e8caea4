//! What `check` says of effects: what the tools declare, how a broker's retries are switched off,
//! and what of it has no use.

use std::fmt;

use super::warnings::named;
use crate::policy::{
    Effect, KeyBinding, Keys, Mode, OnUnknown, RetriesOff, ServerPolicy, SideEffect, Tool,
};
use crate::upstream::StatusSet;

/// One line, for a broker.
pub(super) fn retries_off(
    f: &mut fmt::Formatter<'_>,
    retries_off: Option<&RetriesOff>,
) -> fmt::Result {
    let Some(retries_off) = retries_off else { return Ok(()) };
    let how = match retries_off {
        RetriesOff::NoneExist => "it has no retries of its own".to_owned(),
        // The value may be an account's; where it stands is what can be checked.
        RetriesOff::Header(name, _) => format!("retries off by header {name}"),
        RetriesOff::Query(pair) => {
            format!("retries off by query {}", pair.split('=').next().unwrap_or_default())
        }
        RetriesOff::Body(pointer, _) => format!("retries off by body {pointer}"),
    };
    writeln!(f, "  broker      {how}")
}

/// One line for each tool that has an effect spec, by name, and one for the rule about them.
pub(super) fn tools(f: &mut fmt::Formatter<'_>, server: &ServerPolicy) -> fmt::Result {
    let mut denied: Vec<&str> = server.deny_unsupported_writes.iter().map(String::as_str).collect();
    if !denied.is_empty() {
        denied.sort_unstable();
        writeln!(f, "  denied      writes without a binding in {}", denied.join(", "))?;
    }
    let tools = server.callable_tools().into_iter();
    let declared = tools.filter_map(|(name, tool)| Some((name, tool, tool.effect.as_deref()?)));
    for (name, tool, effect) in declared {
        let side_effect = match tool.side_effect {
            None => "unknown",
            Some(SideEffect::Read) => "read",
            Some(SideEffect::Write) => "write",
            Some(SideEffect::Destructive) => "destructive",
        };
        let environment = effect.environment.as_deref().unwrap_or("no environment");
        let binding = effect.binding.describe();
        let again = match effect.on_unknown {
            OnUnknown::Refuse => "refused",
            OnUnknown::Redispatch => "sent again",
        };
        writeln!(
            f,
            "  tool        {name}: {side_effect} in {environment}, key {binding}, if unknown {again}"
        )?;
    }
    Ok(())
}

/// What of a server's effects has no use, or another than it seems.
pub(super) fn warnings(server: &ServerPolicy) -> Vec<String> {
    let of_spec = |judge: &dyn Fn(&Tool, &Effect) -> bool| {
        named(server, |tool| tool.effect.as_deref().is_some_and(|effect| judge(tool, effect)))
    };
    let writes =
        |tool: &Tool| matches!(tool.side_effect, Some(SideEffect::Write | SideEffect::Destructive));
    let unsafe_write = |tool: &Tool, effect: &Effect| {
        writes(tool) && effect.environment.is_some() && !effect.binding.is_supported()
    };
    let denied = |effect: &Effect| {
        let environment = effect.environment.as_ref();
        server.mode == Mode::AllowList
            && environment.is_some_and(|name| server.deny_unsupported_writes.contains(name))
    };
    let found = [
        (
            of_spec(&|tool, effect| unsafe_write(tool, effect) && !denied(effect)),
            "tools that write, and whose vendor does not dedupe: after a lost reply only a look at \
             the vendor's own state helps",
        ),
        (
            of_spec(&|tool, effect| unsafe_write(tool, effect) && denied(effect)),
            "tools of which `policy.deny_unsupported_writes` refuses every call",
        ),
        (
            of_spec(&|tool, effect| tool.side_effect.is_none() && denied(effect)),
            "tools that `policy.deny_unsupported_writes` cannot judge, for they have no `side_effect`",
        ),
        (
            of_spec(&|_, effect| {
                effect.statuses.retryable != StatusSet::default() && !effect.binding.is_supported()
            }),
            "tools whose `retryable` has no effect, for there is no binding",
        ),
        (
            of_spec(&|_, effect| {
                server.idempotency.keys == Keys::Off && effect.binding.is_supported()
            }),
            "tools whose `idempotency` has no effect, for the server takes no keys",
        ),
        (
            of_spec(&|_, effect| effect.statuses.accepted == StatusSet::default()),
            "tools of which no call can complete, for `accepted` is empty",
        ),
        (
            of_spec(&|_, effect| is_read_there(server, &effect.binding)),
            "tools that refuse a key at their own `body_pointer`, for the vendor's key, which is \
             another, belongs there: take it out of `idempotency.key_pointers`",
        ),
    ];
    let of_tools =
        found.into_iter().filter_map(|(names, text)| Some(format!("{text}: {}", names?)));
    of_tools.chain(nowhere(server)).collect()
}

/// Whether clients' keys are looked for where the vendor's is written.
fn is_read_there(server: &ServerPolicy, binding: &KeyBinding) -> bool {
    match binding {
        KeyBinding::Body(pointer) => server.idempotency.key_pointers.contains(pointer),
        KeyBinding::Header(_) | KeyBinding::Unsupported => false,
    }
}

/// Environments of the rule that no tool has: perhaps they are spelled otherwise there.
fn nowhere(server: &ServerPolicy) -> Option<String> {
    let tools = server.callable_tools();
    let known = |name: &&String| {
        let environment = |tool: &Tool| tool.effect.as_ref()?.environment.clone();
        tools.iter().any(|(_, tool)| environment(tool).as_ref() == Some(*name))
    };
    let mut unknown: Vec<&str> = server
        .deny_unsupported_writes
        .iter()
        .filter(|name| !known(name))
        .map(String::as_str)
        .collect();
    unknown.sort_unstable();
    (!unknown.is_empty()).then(|| {
        let names = unknown.join(", ");
        format!("`policy.deny_unsupported_writes` names what no tool has as environment: {names}")
    })
}
