//! What would run, as text for a person. It holds no secret and no digest of one.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;

use super::effects;
use super::warnings::{of_store, warnings};
use crate::claim::{Fingerprint, KeyFormat, Limits, Millis};
use crate::config::{AuditTarget, Config, PolicySource, StoreConfig, UpstreamConfig};
use crate::gateway::tls::Material;
use crate::observe::Endpoint;
use crate::policy::{
    Auth, DefaultDecision, IdempotencyRules, Keys, Mode, MtlsRules, OAuth, PolicySet,
    PrincipalClaims, ServerPolicy, SessionsFile, SlotScope, Streams, Target,
};
use crate::store::ReceiptSettings;
use crate::store::redis::Examination;
use crate::urls::shown;

/// What would run.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    config: Config,
    policy: PolicySet,
    sessions: Option<SessionsFile>,
    store: Option<Examination>,
    /// The fingerprint of the certificate that clients are shown, and its end.
    certificate: Option<(String, Timestamp)>,
    /// What works, but hardly as it is meant.
    pub(super) warnings: Vec<String>,
}

impl Report {
    pub(super) fn new(
        config: Config,
        policy: PolicySet,
        sessions: Option<SessionsFile>,
        tls: Option<Material>,
        store: Option<Examination>,
    ) -> Self {
        let certificate = tls.map(|material| (material.fingerprint, material.not_after));
        let end = certificate.as_ref().map(|(_, end)| *end);
        let mut warnings = warnings(&config, &policy, sessions.as_ref(), end);
        warnings.extend(store.iter().flat_map(|store| of_store(&config, store)));
        Self { config, policy, sessions, store, certificate, warnings }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        listeners(f, &self.config)?;
        tls(f, self)?;
        store(f, &self.config.store, self.store.as_ref())?;
        limits(f, &self.config)?;
        receipts(f, &self.config.receipts)?;
        upstream(f, &self.config.upstream)?;
        sources(f, self)?;
        for one in self.policy.servers() {
            server(f, one)?;
        }
        for warning in &self.warnings {
            writeln!(f, "\nwarning: {warning}")?;
        }
        Ok(())
    }
}

fn listeners(f: &mut fmt::Formatter<'_>, config: &Config) -> fmt::Result {
    let listen = &config.listen;
    let token = if config.admin_token.is_some() { "with a token" } else { "without a token" };
    writeln!(f, "listen")?;
    let drain = length(listen.drain);
    writeln!(f, "  mcp         {} (workers: {}, drain: {drain})", listen.mcp, listen.workers)?;
    writeln!(f, "  admin       {}, {token}", listen.admin)?;
    let origins = listen.allowed_origins.join(", ");
    writeln!(f, "  origins     {}", or_none(&origins))?;
    writeln!(f, "  hosts       {}", or_none(&listen.allowed_hosts.join(", ")))
}

fn tls(f: &mut fmt::Formatter<'_>, report: &Report) -> fmt::Result {
    let Some(tls) = &report.config.listen.tls else { return writeln!(f, "  tls         none") };
    let (cert, key) = (tls.cert.display(), tls.key.display());
    writeln!(f, "  tls         {cert} with {key}, read every {}", length(tls.reload))?;
    if let Some((fingerprint, end)) = &report.certificate {
        writeln!(f, "  certificate {fingerprint}, until {end}")?;
    }
    let limit = length(tls.handshake_timeout);
    writeln!(f, "  handshakes  {} at a time, {limit} each", tls.max_handshakes)?;
    match &tls.client_ca {
        None => writeln!(f, "  clients     without certificates"),
        Some(file) => writeln!(f, "  clients     certificates of {}", file.display()),
    }
}

fn store(
    f: &mut fmt::Formatter<'_>,
    config: &StoreConfig,
    found: Option<&Examination>,
) -> fmt::Result {
    writeln!(f, "store")?;
    let settings = match config {
        StoreConfig::Memory { shards } => {
            return writeln!(f, "  kind        memory (shards: {shards})");
        }
        StoreConfig::Redis(settings) => settings.as_ref(),
    };
    let (url, connections) = (&settings.url, settings.connections);
    writeln!(f, "  kind        redis, {url} (connections: {connections})")?;
    writeln!(f, "  keys        {}idem:{{<server uid>}}:…", settings.prefix)?;
    let (lease, replicas) = (length(settings.lease), settings.wait_replicas);
    writeln!(f, "  claims      lease {lease}, on {replicas} replicas before a call is sent")?;
    let (connect, reply) = (length(settings.connect_timeout), length(settings.timeout));
    writeln!(f, "  waits       connect {connect}, reply {reply}")?;
    let Some(found) = found else { return Ok(()) };
    if let Some(server) = &found.server {
        let aof = if server.aof { "on" } else { "off" };
        writeln!(
            f,
            "  server      version {}, {}, replicas {}, cluster {}",
            server.version,
            if server.is_replica() { "replica" } else { "primary" },
            server.replicas,
            if server.cluster { "on" } else { "off" }
        )?;
        let policy = &server.maxmemory_policy;
        writeln!(f, "  memory      maxmemory {}, maxmemory-policy {policy}", server.maxmemory)?;
        writeln!(f, "  persistence appendonly {aof}")?;
    }
    writeln!(f, "  scripts     {} loaded", found.scripts)
}

fn receipts(f: &mut fmt::Formatter<'_>, settings: &ReceiptSettings) -> fmt::Result {
    match settings.entries {
        0 => writeln!(f, "  receipts    none"),
        most => writeln!(f, "  receipts    {most}, kept {}", length(settings.retention)),
    }
}

fn limits(f: &mut fmt::Formatter<'_>, config: &Config) -> fmt::Result {
    let Limits { ttl, tombstone_ttl, .. } = config.limits;
    let caps = &config.limits;
    writeln!(f, "  kept        replies {}, tombstones {}", millis(ttl), millis(tombstone_ttl))?;
    writeln!(
        f,
        "  records     {} in all, {} a principal, {} a scope",
        caps.entries, caps.principal_entries, caps.scope_entries
    )?;
    writeln!(
        f,
        "  in flight   {} in all, {} a principal, {} a scope",
        caps.in_flight, caps.principal_in_flight, caps.scope_in_flight
    )?;
    writeln!(f, "  tombstones  {} a scope", caps.scope_tombstones)?;
    writeln!(
        f,
        "  bodies      reply {} bytes, request {} bytes",
        caps.reply_bytes, config.request_bytes
    )
}

fn upstream(f: &mut fmt::Formatter<'_>, upstream: &UpstreamConfig) -> fmt::Result {
    writeln!(f, "upstream")?;
    writeln!(
        f,
        "  time-outs   connect {}, response {}, idle {}",
        length(upstream.connect_timeout),
        length(upstream.response_timeout),
        length(upstream.idle_timeout)
    )?;
    writeln!(f, "  in flight   {} a server", upstream.max_in_flight)?;
    writeln!(
        f,
        "  circuit     opens after {} failures, for {}",
        upstream.circuit_failures,
        length(upstream.circuit_open)
    )
}

fn sources(f: &mut fmt::Formatter<'_>, report: &Report) -> fmt::Result {
    writeln!(f, "files")?;
    match &report.config.policy {
        PolicySource::Watched { path, reload } => {
            writeln!(f, "  policy      {}, read every {}", path.display(), length(*reload))?;
        }
        PolicySource::Local { .. } => writeln!(f, "  policy      built in")?,
    }
    writeln!(f, "  revision    {}", report.policy.revision())?;
    match &report.config.sessions {
        None => writeln!(f, "  sessions    none beside the policy's")?,
        Some(source) => {
            let bindings = report.sessions.as_ref().map_or(0, SessionsFile::len);
            let (path, sync) = (source.path.display(), length(source.sync));
            writeln!(f, "  sessions    {path}, read every {sync} (bindings: {bindings})")?;
        }
    }
    match &report.config.audit {
        AuditTarget::Stdout => writeln!(f, "  audit       standard output"),
        AuditTarget::File(path) => writeln!(f, "  audit       {}", path.display()),
        AuditTarget::Post(endpoint) => posted(f, "audit", endpoint),
    }?;
    match &report.config.traces {
        None => writeln!(f, "  traces      off"),
        Some(traces) => {
            posted(f, "traces", &traces.endpoint)?;
            writeln!(f, "              sampled: {} %", traces.sample_percent)
        }
    }
}

/// An endpoint and the reference of its token, neither of which is a secret.
fn posted(f: &mut fmt::Formatter<'_>, name: &str, endpoint: &Endpoint) -> fmt::Result {
    match endpoint.token() {
        None => writeln!(f, "  {name:<12}posted to {endpoint}, without a token"),
        Some(token) => writeln!(f, "  {name:<12}posted to {endpoint}, with the token of {token}"),
    }
}

fn server(f: &mut fmt::Formatter<'_>, server: &ServerPolicy) -> fmt::Result {
    writeln!(f, "\nserver {}", server.name)?;
    writeln!(f, "  namespace   {}", or_none(&server.namespace))?;
    writeln!(f, "  uid         {}", or_none(server.uid.as_deref().unwrap_or_default()))?;
    match &server.target {
        Target::Mcp(uri) => writeln!(f, "  route       {} to {}", server.path, shown(uri))?,
        Target::Native(native) => {
            writeln!(f, "  route       {} to {}", server.path, native.connectors().join(", "))?;
        }
    }
    match &server.auth {
        Auth::ApiKey(keys) => writeln!(f, "  auth        api_key (keys: {})", keys.len())?,
        Auth::OAuth(rules) => oauth(f, rules)?,
        Auth::Mtls(rules) => mtls(f, rules)?,
        other => writeln!(f, "  auth        {}", other.mode())?,
    }
    let (mode, default) = (mode(server.mode), default_decision(server.default_decision));
    writeln!(f, "  policy      {mode}, default {default}")?;
    let required = if server.session.required { "required" } else { "optional" };
    writeln!(f, "  session     {required}, in {}", server.session.header_name)?;
    if let Some(token) = &server.session.upstream_token {
        writeln!(f, "  credential  {}, from {}", token.header, token.secret.source())?;
    }
    effects::retries_off(f, server.retries_off.as_ref())?;
    let (grants, disabled) = (server.grants.len(), server.grants.disabled());
    writeln!(
        f,
        "  holds       tools: {}, grants: {grants} (disabled: {disabled}), sessions: {}",
        server.callable_tools().len(),
        server.session_count()
    )?;
    idempotency(f, &server.idempotency)?;
    effects::tools(f, server)
}

fn oauth(f: &mut fmt::Formatter<'_>, rules: &OAuth) -> fmt::Result {
    writeln!(f, "  auth        oauth, tokens of {}", rules.issuer)?;
    writeln!(f, "  audience    {}", rules.audiences.join(" or "))?;
    let metadata = rules.resource.as_ref().map_or("", |one| one.metadata_url.as_str());
    writeln!(f, "  metadata    {}", or_none(metadata))?;
    writeln!(f, "  scopes      {}", or_none(&rules.scopes.join(" ")))?;
    let algorithms: Vec<_> = rules.algorithms.iter().map(|one| one.name()).collect();
    writeln!(f, "  signed by   {}, leeway {}", algorithms.join(", "), length(rules.leeway))?;
    let PrincipalClaims { human, agent, team } = &rules.claims;
    let [human, agent, team] = [human, agent, team].map(|names| names.join(" or "));
    let (human, agent, team) = (or_none(&human), or_none(&agent), or_none(&team));
    writeln!(f, "  principal   human {human}, agent {agent}, team {team}")?;
    match &rules.introspection {
        None => writeln!(f, "  opaque      refused"),
        Some(asked) => {
            let endpoint = asked.endpoint.as_ref().map_or("the issuer".to_owned(), shown);
            let (id, source) = (&asked.client_id, asked.client_secret.source());
            let cache = length(asked.cache);
            writeln!(
                f,
                "  opaque      asked at {endpoint} as {id} (secret: {source}), kept {cache}"
            )
        }
    }
}

fn mtls(f: &mut fmt::Formatter<'_>, rules: &MtlsRules) -> fmt::Result {
    writeln!(f, "  auth        mtls (trust domain: {})", rules.trust_domain)?;
    match &rules.ingress {
        None => writeln!(f, "  ingress     none"),
        Some(id) => writeln!(f, "  ingress     {id}, in {}", rules.header),
    }
}

fn idempotency(f: &mut fmt::Formatter<'_>, rules: &IdempotencyRules) -> fmt::Result {
    let keys = match rules.keys {
        Keys::Optional => "optional",
        Keys::Always => "always",
        Keys::Off => return writeln!(f, "  keys        off"),
    };
    let format = match rules.format {
        KeyFormat::Any => "any",
        KeyFormat::Idt => "idt",
    };
    let fingerprint = match rules.fingerprint {
        Fingerprint::Request => "request",
        Fingerprint::Call => "call",
    };
    let streams = match rules.streams {
        Streams::Tombstone => "tombstone",
        Streams::Record => "record",
    };
    let scope = match rules.scope {
        SlotScope::Session => "session",
        SlotScope::Workspace => "workspace",
    };
    writeln!(
        f,
        "  keys        {keys}, format {format}, fingerprint {fingerprint}, streams {streams}, \
         scope {scope}"
    )?;
    let pointers: Vec<_> = rules.key_pointers.iter().map(|pointer| pointer.as_str()).collect();
    writeln!(f, "  in bodies   {}", or_none(&pointers.join(", ")))
}

const fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::AllowList => "allow-list",
        Mode::Observe => "observe",
    }
}

const fn default_decision(decision: DefaultDecision) -> &'static str {
    match decision {
        DefaultDecision::Allow => "allow",
        DefaultDecision::Deny => "deny",
    }
}

fn or_none(text: &str) -> &str {
    if text.is_empty() { "none" } else { text }
}

fn millis(length_of: Millis) -> String {
    length(Duration::from_millis(length_of.0))
}

/// In the largest unit that is exact, as a configuration would say it.
fn length(length: Duration) -> String {
    let ms = length.as_millis();
    let units = [("h", 3_600_000), ("m", 60_000), ("s", 1000)];
    let exact = units.iter().find(|(_, size)| ms.is_multiple_of(*size));
    let (unit, size) = exact.copied().unwrap_or(("ms", 1));
    format!("{}{unit}", ms / size)
}
