//! Where batches are posted.

use std::fmt;

use hyper::Uri;
use hyper::http::uri::PathAndQuery;

use crate::secret::SecretRef;
use crate::urls;

/// An HTTP endpoint, and the bearer token that it asks for. Its `Debug` and `Display` leave the
/// query of the URL out, which may hold a credential.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    url: Uri,
    token: Option<SecretRef>,
}

/// Why a text is no endpoint. Says nothing of the text, which may hold a credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// Not `http` or `https` with a host.
    #[error("must be an absolute http or https URL")]
    NotAbsolute,
    /// `user:password@host`.
    #[error("must not hold a user or a password: name a token by reference instead")]
    Credentials,
}

impl Endpoint {
    /// Reads an absolute URL; it has no token yet.
    ///
    /// # Errors
    ///
    /// [`EndpointError`].
    pub fn parse(text: &str) -> Result<Self, EndpointError> {
        let url: Uri = text.parse().map_err(|_| EndpointError::NotAbsolute)?;
        if !matches!(url.scheme_str(), Some("http" | "https"))
            || url.host().unwrap_or("").is_empty()
        {
            return Err(EndpointError::NotAbsolute);
        }
        match url.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            true => Err(EndpointError::Credentials),
            false => Ok(Self { url, token: None }),
        }
    }

    /// The same with a bearer token.
    #[must_use]
    pub fn with_token(self, token: Option<SecretRef>) -> Self {
        Self { token, ..self }
    }

    /// The same with a path where it has none.
    #[must_use]
    pub fn with_default_path(self, path: &'static str) -> Self {
        let query = self.url.query().is_none_or(str::is_empty);
        if !query || !matches!(self.url.path(), "" | "/") {
            return self;
        }
        let mut parts = self.url.clone().into_parts();
        parts.path_and_query = Some(PathAndQuery::from_static(path));
        Self { url: Uri::from_parts(parts).unwrap_or(self.url), token: self.token }
    }

    /// The URL, its query included.
    pub fn url(&self) -> &Uri {
        &self.url
    }

    /// Where its token comes from.
    pub fn token(&self) -> Option<&SecretRef> {
        self.token.as_ref()
    }

    /// Whether what is sent there, a token included, can be read on the way: plain HTTP to another
    /// machine.
    pub fn is_exposed(&self) -> bool {
        self.url.scheme_str() == Some("http") && !urls::is_here(&self.url)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&urls::shown(&self.url))
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("url", &format_args!("{self}"))
            .field("token", &self.token)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_an_absolute_url_without_credentials() {
        for good in ["http://h", "https://h:1/p?q=1", "http://[::1]:4318/v1/traces"] {
            assert_eq!(Endpoint::parse(good).expect(good).url(), good);
        }
        for bad in ["", "h", "/p", "ftp://h/", "http://", "file:///x", "http:///p"] {
            assert_eq!(Endpoint::parse(bad), Err(EndpointError::NotAbsolute), "{bad}");
        }
        for bad in ["http://u:p@h/", "https://token@h"] {
            assert_eq!(Endpoint::parse(bad), Err(EndpointError::Credentials), "{bad}");
        }
    }

    #[test]
    fn a_path_is_added_only_where_there_is_none() {
        let with = |url| Endpoint::parse(url).expect(url).with_default_path("/v1/traces");
        assert_eq!(with("http://h:4318").url(), "http://h:4318/v1/traces");
        assert_eq!(with("http://h:4318/").url(), "http://h:4318/v1/traces");
        assert_eq!(with("http://h/otlp").url(), "http://h/otlp");
        assert_eq!(with("http://h/?k=v").url(), "http://h/?k=v");
    }

    #[test]
    fn what_prints_it_leaves_the_query_out() {
        let endpoint = Endpoint::parse("https://h/p?key=s3cr3t").expect("an endpoint");
        assert_eq!(endpoint.to_string(), "https://h/p?…");
        assert!(!format!("{endpoint:?}").contains("s3cr3t"));
    }

    #[test]
    fn plain_http_is_exposed_unless_it_stays_on_this_machine() {
        let exposed = |url| Endpoint::parse(url).expect(url).is_exposed();
        assert!(exposed("http://collector:4318/") && exposed("http://10.0.0.1/"));
        for url in ["https://collector/", "http://127.0.0.1/", "http://[::1]/", "http://localhost"]
        {
            assert!(!exposed(url), "{url}");
        }
    }
}
