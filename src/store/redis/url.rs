//! `store.url`: one server, Sentinels that know it, or a cluster.

use std::fmt;

use redis::{ConnectionInfo, IntoConnectionInfo};

/// The most hosts in a URL.
const MAX_HOSTS: usize = 16;

/// The port of a Sentinel that the URL does not say.
const SENTINEL_PORT: u16 = 26379;

/// Where Redis or Valkey servers are, and as whom to talk to them. Its `Debug` and `Display` show no
/// user and no password.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisUrl {
    kind: Kind,
    tls: bool,
    /// `user:password@`, or nothing.
    credentials: String,
    hosts: Vec<String>,
    database: String,
}

/// Who tells where the server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    /// The URL.
    Server,
    /// The Sentinels in the URL know it by this name.
    Sentinel(String),
    /// The nodes of a cluster know which of them has a key.
    Cluster,
}

/// Why a URL cannot be used. It quotes nothing of the URL, which may hold a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// Not a URL of this kind, or of a kind that this build does not have.
    #[error(
        "must be redis://[user:password@]host[:port][/database], \
         redis+sentinel://[user:password@]host[:port][,…]/name[/database] or \
         redis+cluster://[user:password@]host[:port][,…], or the same with rediss for TLS"
    )]
    Form,
    /// A certificate that nobody checks protects from nobody.
    #[error("must not switch off the check of the server's certificate")]
    Insecure,
}

impl RedisUrl {
    /// Reads a URL.
    ///
    /// # Errors
    ///
    /// When it is not one that this build has.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        if text.contains('#') {
            return Err(UrlError::Insecure);
        }
        let (scheme, rest) = text.split_once("://").ok_or(UrlError::Form)?;
        let (kind, tls) = match scheme.split_once('+').unwrap_or((scheme, "")) {
            ("redis", kind) => (kind, false),
            ("rediss", kind) => (kind, true),
            _ => return Err(UrlError::Form),
        };
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (credentials, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (kind, database) = match (kind, path.split_once('/')) {
            ("", None) => (Kind::Server, path),
            ("sentinel", None) => (Kind::Sentinel(name(path)?), ""),
            ("sentinel", Some((path, database))) => (Kind::Sentinel(name(path)?), database),
            ("cluster", None) if path.is_empty() => (Kind::Cluster, ""),
            _ => return Err(UrlError::Form),
        };
        let hosts: Vec<String> = hosts.split(',').map(str::to_owned).collect();
        let most = if kind == Kind::Server { 1 } else { MAX_HOSTS };
        if hosts.len() > most {
            return Err(UrlError::Form);
        }
        let at = if credentials.is_empty() { "" } else { "@" };
        let (credentials, database) = (format!("{credentials}{at}"), database.to_owned());
        let url = Self { kind, tls, credentials, hosts, database };
        url.hosts.iter().try_for_each(|host| url.server(host).map(|_| ()))?;
        Ok(url)
    }

    pub(super) fn kind(&self) -> &Kind {
        &self.kind
    }

    /// The hosts of the URL, each perhaps with a port.
    pub(super) fn hosts(&self) -> &[String] {
        &self.hosts
    }

    /// How to reach a server at `host[:port]`, with the URL's user and database.
    ///
    /// # Errors
    ///
    /// When that is no address.
    pub(super) fn server(&self, host: &str) -> Result<ConnectionInfo, UrlError> {
        self.info(&format!("{}{host}/{}", self.credentials, self.database))
    }

    /// How to reach a Sentinel, which has no users and no databases of ours.
    pub(super) fn sentinel(&self, host: &str) -> Result<ConnectionInfo, UrlError> {
        let said = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        match said {
            true => self.info(host),
            false => self.info(&format!("{host}:{SENTINEL_PORT}")),
        }
    }

    fn info(&self, rest: &str) -> Result<ConnectionInfo, UrlError> {
        let text = format!("{}://{rest}", self.scheme());
        let url = url::Url::parse(&text).map_err(|_| UrlError::Form)?;
        if url.host_str().is_none_or(str::is_empty) || url.query().is_some() {
            return Err(UrlError::Form);
        }
        text.into_connection_info().map_err(|_| UrlError::Form)
    }

    fn scheme(&self) -> &'static str {
        if self.tls { "rediss" } else { "redis" }
    }
}

/// The name by which Sentinels know a server.
fn name(text: &str) -> Result<String, UrlError> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    match !text.is_empty() && text.bytes().all(allowed) {
        true => Ok(text.to_owned()),
        false => Err(UrlError::Form),
    }
}

impl fmt::Display for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, hosts) = (self.scheme(), self.hosts.join(","));
        match &self.kind {
            Kind::Server => write!(f, "{scheme}://{hosts}")?,
            Kind::Sentinel(name) => write!(f, "{scheme}+sentinel://{hosts}/{name}")?,
            Kind::Cluster => write!(f, "{scheme}+cluster://{hosts}")?,
        }
        if self.database.is_empty() { Ok(()) } else { write!(f, "/{}", self.database) }
    }
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisUrl({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_shown_without_its_secrets() {
        for (text, shown) in [
            ("rediss://ann:s3cr3t@db.test:6380/2", "rediss://db.test:6380/2"),
            ("redis://db.test", "redis://db.test"),
            ("redis://:s3cr3t@[::1]:6380", "redis://[::1]:6380"),
            ("redis+sentinel://a:s3cr3t@h:1,i/main/3", "redis+sentinel://h:1,i/main/3"),
            ("rediss+cluster://a:s3cr3t@h:1,i:2", "rediss+cluster://h:1,i:2"),
        ] {
            let url = RedisUrl::parse(text).expect(text);
            assert_eq!(url.to_string(), shown);
            assert!(!format!("{url:?}").contains("s3cr3t"), "{url:?}");
        }
    }

    #[test]
    fn a_sentinel_has_its_own_port_and_not_the_servers_user() {
        let url = RedisUrl::parse("redis+sentinel://ann:s3cr3t@h,i:7/main/3").expect("a URL");
        let address = |host| url.sentinel(host).expect("an address").addr().to_string();
        assert_eq!((address("h"), address("i:7")), ("h:26379".into(), "i:7".into()));
        let server = url.server("j:8").expect("an address");
        assert_eq!((server.addr().to_string(), server.redis_settings().db()), ("j:8".into(), 3));
        assert_eq!(server.redis_settings().username(), Some("ann"));
        let sentinel = url.sentinel("h").expect("an address");
        assert_eq!(sentinel.redis_settings().username(), None);
    }

    #[test]
    fn what_this_build_does_not_have_is_refused() {
        for text in [
            "",
            "db.test:6379",
            "http://db.test",
            "unix:///run/redis.sock",
            "redis+unix://db.test",
            "redis://one.test,two.test",
            "redis://db.test/1/2",
            "redis://db.test?protocol=resp3",
            "redis://db.test/nine",
            "redis://",
            "redis+sentinel://db.test",
            "redis+sentinel://db.test/ma in",
            "redis+cluster://db.test/1",
            "redis+cluster://db.test,",
        ] {
            assert_eq!(RedisUrl::parse(text), Err(UrlError::Form), "{text}");
        }
        assert_eq!(RedisUrl::parse("rediss://db.test/#insecure"), Err(UrlError::Insecure));
    }
}
