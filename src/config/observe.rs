//! The `[audit]` and `[traces]` tables.

use std::path::{Path, PathBuf};

use super::entries::{Entries, Entry};
use super::error::ConfigError;
use super::values::or;
use crate::observe::Endpoint;
use crate::observe::trace::DEFAULT_PATH;
use crate::secret::SecretRef;

/// Where audit events go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuditTarget {
    /// One JSON object a line on the standard output.
    Stdout,
    /// The same, appended to a file.
    File(PathBuf),
    /// The same in batches, posted to an HTTP server.
    Post(Endpoint),
}

/// Where traces go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracesConfig {
    /// The collector.
    pub endpoint: Endpoint,
    /// How many of a hundred exchanges without a caller's decision are traced, 0 to 100.
    pub sample_percent: u8,
}

/// The `[audit]` table.
pub(super) fn audit(entries: &mut Entries, folder: &Path) -> Result<AuditTarget, ConfigError> {
    let token = entries.take("audit.token");
    let target = or(entries, "audit.sink", AuditTarget::Stdout, |entry| {
        Ok(match entry.text()? {
            "stdout" => AuditTarget::Stdout,
            url if is_url(url) => AuditTarget::Post(endpoint(entry)?),
            file => AuditTarget::File(folder.join(file)),
        })
    })?;
    match (target, token) {
        (AuditTarget::Post(endpoint), Some(token)) => {
            Ok(AuditTarget::Post(endpoint.with_token(Some(secret(&token, folder)?))))
        }
        (target, None) => Ok(target),
        (_, Some(token)) => Err(token.wrong("needs an http or https URL in `audit.sink`")),
    }
}

/// The `[traces]` table.
pub(super) fn traces(
    entries: &mut Entries,
    folder: &Path,
) -> Result<Option<TracesConfig>, ConfigError> {
    let token = entries.take("traces.token");
    let percent = entries.take("traces.sample_percent");
    let Some(entry) = entries.take("traces.endpoint") else {
        return match token.or(percent) {
            Some(idle) => Err(idle.wrong("has no effect without `traces.endpoint`")),
            None => Ok(None),
        };
    };
    let token = token.map(|token| secret(&token, folder)).transpose()?;
    let sample_percent = percent.map_or(Ok(100), |entry| entry.count(0, 100))?;
    Ok(Some(TracesConfig {
        endpoint: endpoint(&entry)?.with_default_path(DEFAULT_PATH).with_token(token),
        sample_percent: u8::try_from(sample_percent).unwrap_or(100),
    }))
}

fn is_url(text: &str) -> bool {
    let scheme = text.split_once("://").map_or("", |(scheme, _)| scheme);
    scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https")
}

fn endpoint(entry: &Entry) -> Result<Endpoint, ConfigError> {
    Endpoint::parse(entry.text()?).map_err(|error| entry.wrong(error.to_string()))
}

/// The reference of a secret.
pub(super) fn secret(entry: &Entry, folder: &Path) -> Result<SecretRef, ConfigError> {
    SecretRef::parse(entry.text()?, folder).map_err(|error| entry.wrong(error.to_string()))
}

/// The standard variables that name a trace collector (OpenTelemetry specification, "OTLP Exporter
/// Configuration"); an empty one counts as unset.
#[derive(Debug, Default)]
pub(super) struct Standard {
    traces: Option<String>,
    any: Option<String>,
    off: bool,
}

const TRACES_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
const ANY_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const DISABLED: &str = "OTEL_SDK_DISABLED";
const EXPORTER: &str = "OTEL_TRACES_EXPORTER";

impl Standard {
    /// Takes note of a variable, if it is one of them.
    pub(super) fn notice(&mut self, name: &str, value: &str) {
        let set = || (!value.is_empty()).then(|| value.to_owned());
        match name {
            TRACES_ENDPOINT => self.traces = set(),
            ANY_ENDPOINT => self.any = set(),
            DISABLED => self.off |= value.eq_ignore_ascii_case("true"),
            EXPORTER => self.off |= value == "none",
            _ => {}
        }
    }

    /// The variable that counts, and the URL of traces that follows from it: that of traces as it
    /// is, that of every signal with their path after it.
    pub(super) fn endpoint(self) -> Option<(&'static str, String)> {
        match (self.off, self.traces, self.any) {
            (true, _, _) | (_, None, None) => None,
            (_, Some(url), _) => Some((TRACES_ENDPOINT, url)),
            (_, None, Some(url)) => {
                Some((ANY_ENDPOINT, format!("{}{DEFAULT_PATH}", url.trim_end_matches('/'))))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::config::{Config, ConfigError};

    use super::*;

    const FILE: &str = "/etc/onceward/onceward.toml";

    fn parse(tables: &str, variables: &[(&str, &str)]) -> Result<Config, ConfigError> {
        let text = format!("[policy]\npath = \"policy.yaml\"\n{tables}");
        let variables = variables.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        Config::parse(&text, Path::new(FILE), variables)
    }

    fn collector(tables: &str, variables: &[(&str, &str)]) -> Option<String> {
        let traces = parse(tables, variables).expect("valid").traces?;
        Some(traces.endpoint.url().to_string())
    }

    #[test]
    fn a_url_is_posted_to_and_everything_else_is_a_file() {
        let sink = |text| parse(&format!("[audit]\nsink = \"{text}\"\n"), &[]).map(|c| c.audit);
        let endpoint = Endpoint::parse("https://h/audit").expect("a URL");
        assert_eq!(sink("https://h/audit"), Ok(AuditTarget::Post(endpoint)));
        assert_eq!(sink("http.jsonl"), Ok(AuditTarget::File("/etc/onceward/http.jsonl".into())));
        assert_eq!(sink("ftp://h"), Ok(AuditTarget::File("/etc/onceward/ftp://h".into())));
        let token = "[audit]\nsink = \"https://h/\"\ntoken = \"file:token\"\n";
        let AuditTarget::Post(endpoint) = parse(token, &[]).expect("valid").audit else {
            panic!("a URL")
        };
        assert_eq!(endpoint.token(), Some(&SecretRef::File("/etc/onceward/token".into())));
    }

    #[test]
    fn each_mistake_is_refused_with_its_line_and_without_its_value() {
        for (tables, parts) in [
            ("[audit]\ntoken = \"env:T\"\n", ["line 4", "`audit.token` needs"]),
            (
                "[audit]\nsink = \"x.jsonl\"\ntoken = \"env:T\"\n",
                ["line 5", "`audit.token` needs an http or https URL"],
            ),
            (
                "[audit]\nsink = \"http://u:s3cr3t@h/\"\n",
                ["line 4", "`audit.sink` must not hold a user or a password"],
            ),
            ("[audit]\nsink = \"HTTP://\"\n", ["line 4", "`audit.sink` must be an absolute"]),
            (
                "[audit]\nsink = \"https://h/\"\ntoken = \"s3cr3t\"\n",
                ["line 5", "`audit.token` must be `env:NAME` or `file:PATH`"],
            ),
            ("[traces]\ntoken = \"env:T\"\n", ["line 4", "`traces.token` has no effect"]),
            ("[traces]\nsample_percent = 5\n", ["line 4", "`traces.sample_percent` has no effect"]),
            (
                "[traces]\nendpoint = \"h:4318\"\n",
                ["line 4", "`traces.endpoint` must be an absolute"],
            ),
            (
                "[traces]\nendpoint = \"http://h\"\nsample_percent = 101\n",
                ["line 5", "`traces.sample_percent` must be a whole number from 0 to 100"],
            ),
        ] {
            let message = parse(tables, &[]).expect_err(tables).to_string();
            for part in parts {
                assert!(message.contains(part), "{tables}: {message}");
            }
            assert!(!message.contains("s3cr3t"), "{message}");
        }
    }

    #[test]
    fn the_standard_variables_stand_below_ours() {
        let (own, any) = ((TRACES_ENDPOINT, "http://t/x"), (ANY_ENDPOINT, "http://a:4318/"));
        let table = "[traces]\nendpoint = \"http://table\"\n";
        let url = |text: &str| Some(text.to_owned());
        assert_eq!(collector("", &[]), None);
        assert_eq!(collector("", &[any]), url("http://a:4318/v1/traces"));
        assert_eq!(collector("", &[any, own]), url("http://t/x"));
        assert_eq!(collector(table, &[any, own]), url("http://table/v1/traces"));
        let ours = ("ONCEWARD_TRACES__ENDPOINT", "http://ours/y");
        assert_eq!(collector(table, &[own, ours]), url("http://ours/y"));
        assert_eq!(collector("", &[(TRACES_ENDPOINT, "")]), None, "empty is unset");
        assert_eq!(collector("", &[own, (DISABLED, "true")]), None);
        assert_eq!(collector("", &[own, (EXPORTER, "none")]), None);
        assert_eq!(collector(table, &[(DISABLED, "true")]), url("http://table/v1/traces"));
        let wrong = parse("", &[(ANY_ENDPOINT, "collector")]).expect_err("no URL").to_string();
        assert!(wrong.starts_with("environment variable OTEL_EXPORTER_OTLP_ENDPOINT"), "{wrong}");
    }

    #[test]
    fn a_collector_has_a_sampling_rate() {
        let table = "[traces]\nendpoint = \"http://h\"\n";
        let percent = |more: &str| {
            let traces = parse(&format!("{table}{more}"), &[]).expect("valid").traces;
            traces.expect("on").sample_percent
        };
        assert_eq!(percent(""), 100);
        assert_eq!(percent("sample_percent = 7\n"), 7);
    }
}
