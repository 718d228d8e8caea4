//! What can be served, but hardly as it is meant.

use jiff::Timestamp;

use super::effects;
use crate::config::{AuditTarget, Config, StoreConfig};
use crate::policy::{
    Auth, DefaultDecision, Keys, Mode, PolicySet, ServerPolicy, SessionsFile, Tool,
};
use crate::secret::SecretRef;
use crate::store::redis::Examination;

/// The most tools that one warning names.
const MAX_NAMED: usize = 5;

/// Every warning, those of the process first.
pub(super) fn warnings(
    config: &Config,
    policy: &PolicySet,
    sessions: Option<&SessionsFile>,
    certificate_end: Option<Timestamp>,
) -> Vec<String> {
    let mut warnings = of_process(config, sessions);
    if certificate_end.is_some_and(|end| end < Timestamp::now()) {
        warnings.push("the certificate of `[listen.tls]` has ended: clients refuse it".to_owned());
    }
    for server in policy.servers() {
        let found = of_server(server, config.sessions.is_some());
        warnings.extend(found.into_iter().map(|text| format!("server {}: {text}", server.name)));
    }
    warnings
}

/// What the store's server does not protect from.
pub(super) fn of_store(config: &Config, found: &Examination) -> Vec<String> {
    let StoreConfig::Redis(settings) = &config.store else { return Vec::new() };
    let Some(server) = &found.server else {
        return vec![
            "this redis user may not run INFO, so nobody checks its version, its maxmemory-policy \
             and its persistence"
                .to_owned(),
        ];
    };
    let mut warnings = Vec::new();
    let replicated = settings.wait_replicas > 0 && server.replicas > 0;
    if !server.aof && !replicated {
        warnings.push(
            "redis has `appendonly no`, and no replica must have a claim before its call is sent: \
             a restart of redis forgets claims, and a retry may then run a call a second time"
                .to_owned(),
        );
    }
    if server.replicas > 0 && settings.wait_replicas == 0 {
        warnings.push(
            "redis has replicas and `store.wait_replicas` is 0: a failover may forget the newest \
             claims, and a retry may then run a call a second time"
                .to_owned(),
        );
    }
    if server.replicas < settings.wait_replicas {
        warnings.push(format!(
            "redis has {} replicas and `store.wait_replicas` is {}: every keyed call is refused",
            server.replicas, settings.wait_replicas
        ));
    }
    if server.maxmemory == 0 {
        warnings.push(
            "redis has no `maxmemory`: nothing bounds what the records of many servers take"
                .to_owned(),
        );
    }
    warnings
}

fn of_process(config: &Config, sessions: Option<&SessionsFile>) -> Vec<String> {
    let mut warnings = Vec::new();
    let secured = config.listen.tls.is_some();
    for (name, address, tls) in
        [("mcp", config.listen.mcp, secured), ("admin", config.listen.admin, false)]
    {
        if !address.ip().is_loopback() && !tls {
            warnings.push(format!(
                "`[listen] {name}` is not loopback and speaks plain HTTP: end TLS in front of it, \
                 or credentials can be read on the way"
            ));
        }
    }
    warnings.extend(of_endpoints(config));
    if let (Some(source), None) = (&config.sessions, sessions) {
        warnings.push(format!(
            "{} does not exist yet: until it does, only the policy's own sessions count",
            source.path.display()
        ));
    }
    warnings
}

fn of_endpoints(config: &Config) -> Vec<String> {
    let audit = match &config.audit {
        AuditTarget::Post(endpoint) => Some(("audit.sink", endpoint)),
        AuditTarget::Stdout | AuditTarget::File(_) => None,
    };
    let traces = config.traces.as_ref().map(|traces| ("traces.endpoint", &traces.endpoint));
    let mut warnings = Vec::new();
    for (key, endpoint) in audit.into_iter().chain(traces) {
        if endpoint.is_exposed() {
            warnings.push(format!(
                "`{key}` speaks plain HTTP to another machine: use https, or what is sent can be \
                 read on the way"
            ));
        }
        if let Some(Err(error)) = endpoint.token().map(SecretRef::read) {
            warnings.push(format!("`{key}` has a token that cannot be read here: {error}"));
        }
    }
    warnings
}

fn of_server(server: &ServerPolicy, sessions_file: bool) -> Vec<String> {
    let mut warnings = Vec::new();
    if server.idempotency.keys != Keys::Off {
        warnings.extend(of_keys(server).map(str::to_owned));
    }
    warnings.extend(of_tokens(server).map(str::to_owned));
    warnings.extend(effects::warnings(server));
    match server.mode {
        Mode::Observe => warnings.push("mode `observe` allows every call".to_owned()),
        Mode::AllowList => warnings.extend(of_grants(server, sessions_file)),
    }
    warnings
}

/// Why keyed calls would all be refused.
fn of_keys(server: &ServerPolicy) -> impl Iterator<Item = &'static str> {
    let no_uid = server.uid.is_none().then_some(match server.idempotency.keys {
        Keys::Always => {
            "has no `server.uid`, so every tools/call gets 503 `idempotency_unavailable`"
        }
        Keys::Optional | Keys::Off => {
            "has no `server.uid`, so every call with a key gets 503 `idempotency_unavailable`"
        }
    });
    let unverified = (!server.auth.verifies()).then_some(
        "its auth mode verifies nobody, so every call with a key gets 400 \
         `idempotency_requires_verified_identity`: use `api_key`, `oauth` or `mtls`, or `keys: off`",
    );
    no_uid.into_iter().chain(unverified)
}

/// What mode `oauth` lacks.
fn of_tokens(server: &ServerPolicy) -> impl Iterator<Item = &'static str> {
    let undiscovered = matches!(&server.auth, Auth::OAuth(rules) if rules.resource.is_none());
    let undiscovered = undiscovered.then_some(
        "has no `auth.resource`, so clients cannot find out whose tokens it takes (RFC 9728): name \
         the URL that they call",
    );
    let shared = matches!(&server.auth, Auth::OAuth(rules) if rules.claims.human.is_empty()
        && rules.claims.agent.is_empty());
    let shared = shared.then_some(
        "takes no human and no agent from tokens, so everybody of a team shares its keys",
    );
    undiscovered.into_iter().chain(shared)
}

fn of_grants(server: &ServerPolicy, sessions_file: bool) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut warn = |text: &str| warnings.push(text.to_owned());
    if server.auth == Auth::None {
        warn("auth mode `none` names nobody, so every tools/call gets 401 `missing_identity`");
    }
    if server.default_decision == DefaultDecision::Allow {
        warn("the default decision is `allow`: a tool that no grant speaks of may be called");
    } else if server.grants.is_empty() {
        warn("no grant names anybody, so every tools/call is refused");
    }
    if server.grants.nobodys() > 0 {
        warn("a grant without `human_id`, `agent_id` and `team_id` names nobody");
    }
    if matches!(server.auth, Auth::Mtls(_)) && server.session_count() == 0 && !sessions_file {
        warn("mode `mtls` knows its callers by their sessions, but there is none: all are refused");
    } else if server.session.required && server.session_count() == 0 && !sessions_file {
        warn("a session is required, but there is none, so every tools/call is refused");
    }
    if let Some(unknown) = named(server, |tool| tool.side_effect.is_none()) {
        warn(&format!("tools without a `side_effect` cannot be granted: {unknown}"));
    }
    warnings
}

/// The names of these tools, the first of them where there are many; `None` where there are none.
pub(super) fn named(server: &ServerPolicy, of: impl Fn(&Tool) -> bool) -> Option<String> {
    let mut names: Vec<&str> = server
        .callable_tools()
        .into_iter()
        .filter(|(_, tool)| of(tool))
        .map(|(name, _)| name)
        .collect();
    if names.is_empty() {
        return None;
    }
    names.sort_unstable();
    let more = if names.len() > MAX_NAMED { ", …" } else { "" };
    names.truncate(MAX_NAMED);
    Some(format!("{}{more}", names.join(", ")))
}
