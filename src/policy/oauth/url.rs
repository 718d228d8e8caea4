//! The URLs of mode `oauth`.

use hyper::Uri;

use super::MAX_TEXT;
use crate::urls::is_here;

/// Where the metadata of a resource stands, before its path (RFC 9728, section 3).
pub const RESOURCE_METADATA: &str = "/.well-known/oauth-protected-resource";

pub(super) const ENDPOINT_FORM: &str = "must be an `https` URL (`http` for an issuer on this machine alone), without user name, \
     password or fragment";

/// Reads a URL of an authorization server, that keys and secrets may travel over: `https`, or `http`
/// that does not leave this machine. `None` for any other.
pub fn endpoint_url(text: &str) -> Option<Uri> {
    let uri = absolute(text)?;
    match uri.scheme_str() {
        Some("https") => Some(uri),
        Some("http") if is_here(&uri) => Some(uri),
        _ => None,
    }
}

/// What a server is called from outside (RFC 8707, RFC 9728).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// The canonical URI.
    pub uri: String,
    /// The URL of its metadata.
    pub metadata_url: String,
    /// The path of that URL.
    pub metadata_path: String,
}

impl Resource {
    /// What an audience may call it: a URL without a path means the same with a slash
    /// (RFC 3986, 6.2.3).
    pub(super) fn names(&self) -> Vec<String> {
        let bare = self.uri.trim_end_matches('/');
        match self.metadata_path == RESOURCE_METADATA {
            true => vec![bare.to_owned(), format!("{bare}/")],
            false => vec![self.uri.clone()],
        }
    }

    /// Reads the absolute `http` or `https` URL of a server, without a query.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let uri = absolute(text).filter(|uri| uri.query().is_none())?;
        let scheme = uri.scheme_str().filter(|scheme| matches!(*scheme, "http" | "https"))?;
        // The path may hold what would end a quoted text; no server's path does.
        let path = uri.path().trim_end_matches('/');
        if path.contains(['"', '\\']) {
            return None;
        }
        let metadata_path = format!("{RESOURCE_METADATA}{path}");
        let metadata_url = format!("{scheme}://{}{metadata_path}", uri.authority()?);
        Some(Self { uri: text.to_owned(), metadata_url, metadata_path })
    }
}

fn absolute(text: &str) -> Option<Uri> {
    if text.len() > MAX_TEXT || text.contains('#') {
        return None;
    }
    let uri: Uri = text.parse().ok()?;
    let authority = uri.authority()?;
    (!authority.host().is_empty() && !authority.as_str().contains('@')).then_some(uri)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_travel_over_tls_or_not_at_all() {
        for good in [
            "https://as.example",
            "https://as.example/tenant/",
            "https://as.example:8443/x?y",
            "http://localhost:9000",
            "http://127.0.0.1:9000/realm",
            "http://[::1]:9000",
        ] {
            assert!(endpoint_url(good).is_some(), "{good}");
        }
        for bad in [
            "http://as.example",
            "http://localhost.example",
            "http://10.0.0.1",
            "ftp://as.example",
            "as.example",
            "/path",
            "",
            "https://user:secret@as.example",
            "https://as.example#x",
            "https://",
        ] {
            assert!(endpoint_url(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn the_metadata_stands_between_host_and_path() {
        // RFC 9728, section 3.1, and its example without a path.
        for (uri, url) in [
            (
                "https://resource.example.com",
                "https://resource.example.com/.well-known/oauth-protected-resource",
            ),
            (
                "https://resource.example.com/resource1",
                "https://resource.example.com/.well-known/oauth-protected-resource/resource1",
            ),
            (
                "http://127.0.0.1:8080/mcp/",
                "http://127.0.0.1:8080/.well-known/oauth-protected-resource/mcp",
            ),
        ] {
            let resource = Resource::parse(uri).expect(uri);
            assert_eq!(resource.metadata_url, url);
            assert!(url.ends_with(&resource.metadata_path), "{url}");
            assert_eq!(resource.uri, uri);
        }
        for no_server in ["api://x", "https://h/p?q=1", "https://h/\"", "name"] {
            assert_eq!(Resource::parse(no_server), None, "{no_server}");
        }
    }
}
