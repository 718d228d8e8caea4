//! `store.url`.

use std::fmt;

use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo};

/// Where one Redis or Valkey server is, and as whom to talk to it. Its `Debug` and `Display` show no
/// user and no password.
#[derive(Clone)]
pub struct RedisUrl {
    text: String,
    info: ConnectionInfo,
}

/// Why a URL cannot be used. It quotes nothing of the URL, which may hold a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// Not a URL of this kind, or of a kind that this build does not have.
    #[error(
        "must be redis://[user:password@]host[:port][/database], or rediss:// for TLS; Sentinel, \
         Cluster and socket URLs are not supported by this build"
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
        let url = url::Url::parse(text).map_err(|_| UrlError::Form)?;
        let known = matches!(url.scheme(), "redis" | "rediss") && url.host_str().is_some();
        if !known || url.query().is_some() {
            return Err(UrlError::Form);
        }
        if url.fragment().is_some() {
            return Err(UrlError::Insecure);
        }
        let info = text.into_connection_info().map_err(|_| UrlError::Form)?;
        Ok(Self { text: text.to_owned(), info })
    }

    pub(super) fn info(&self) -> ConnectionInfo {
        self.info.clone()
    }
}

impl PartialEq for RedisUrl {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for RedisUrl {}

impl fmt::Display for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let database = self.info.redis_settings().db();
        match self.info.addr() {
            ConnectionAddr::Tcp(host, port) => write!(f, "redis://{host}:{port}/{database}"),
            ConnectionAddr::TcpTls { host, port, .. } => {
                write!(f, "rediss://{host}:{port}/{database}")
            }
            _ => f.write_str("redis"),
        }
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
        let url = RedisUrl::parse("rediss://ann:s3cr3t@db.test:6380/2").expect("a URL");
        assert_eq!(url.to_string(), "rediss://db.test:6380/2");
        assert!(!format!("{url:?}").contains("s3cr3t"));
        let plain = RedisUrl::parse("redis://db.test").expect("a URL");
        assert_eq!(plain.to_string(), "redis://db.test:6379/0");
    }

    #[test]
    fn what_this_build_does_not_have_is_refused() {
        for text in [
            "",
            "db.test:6379",
            "http://db.test",
            "unix:///run/redis.sock",
            "redis+sentinel://db.test/main",
            "redis-cluster://db.test",
            "redis://db.test?protocol=resp3",
            "redis://db.test/nine",
        ] {
            assert_eq!(RedisUrl::parse(text), Err(UrlError::Form), "{text}");
        }
        assert_eq!(RedisUrl::parse("rediss://db.test/#insecure"), Err(UrlError::Insecure));
    }
}
