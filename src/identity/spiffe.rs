//! SPIFFE ids: who a certificate says its holder is.

/// The most bytes of an id, and of its trust domain (SPIFFE-ID, section 2.3).
const MAX_ID: usize = 2048;
const MAX_TRUST_DOMAIN: usize = 255;

const SCHEME: &str = "spiffe://";

/// A SPIFFE id, `spiffe://` and a trust domain and a path, in the one form that names it: lower
/// case where case means nothing, nothing encoded, no empty and no relative segment. Text equality
/// is identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpiffeId {
    text: Box<str>,
    /// Where the trust domain ends.
    path: usize,
}

impl SpiffeId {
    /// Reads an id; `None` for any other text.
    pub fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix(SCHEME)?;
        let end = rest.find('/').unwrap_or(rest.len());
        let (trust_domain, path) = rest.split_at(end);
        let good = text.len() <= MAX_ID && Self::is_trust_domain(trust_domain) && is_path(path);
        good.then(|| Self { text: text.into(), path: SCHEME.len() + end })
    }

    /// Whether a text can be a trust domain: lower-case letters, digits, `.`, `-` and `_`.
    pub fn is_trust_domain(text: &str) -> bool {
        let allowed =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-_".contains(&byte);
        (1..=MAX_TRUST_DOMAIN).contains(&text.len()) && text.bytes().all(allowed)
    }

    /// The trust domain.
    pub fn trust_domain(&self) -> &str {
        self.text.get(SCHEME.len()..self.path).unwrap_or_default()
    }

    /// Namespace and name of the session that the id names, where it is
    /// `spiffe://<trust domain>/ns/<namespace>/session/<name>`.
    pub fn session(&self) -> Option<(&str, &str)> {
        let path = self.text.get(self.path..)?;
        let (namespace, name) = path.strip_prefix("/ns/")?.split_once("/session/")?;
        (!namespace.contains('/') && !name.contains('/')).then_some((namespace, name))
    }
}

impl std::fmt::Display for SpiffeId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

/// Empty, or segments of letters, digits, `.`, `-` and `_`, none of them empty, `.` or `..`.
fn is_path(path: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    path.is_empty()
        || path
            .split('/')
            .skip(1)
            .all(|segment| !matches!(segment, "" | "." | "..") && segment.bytes().all(allowed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_of_a_session_names_its_namespace_and_name() {
        let id = SpiffeId::parse("spiffe://example.org/ns/team-a/session/s_1.x").expect("an id");
        assert_eq!(id.trust_domain(), "example.org");
        assert_eq!(id.session(), Some(("team-a", "s_1.x")));
    }

    #[test]
    fn other_ids_name_no_session() {
        for text in [
            "spiffe://example.org",
            "spiffe://example.org/ns/a/sa/b",
            "spiffe://example.org/ns/a/session/b/c",
            "spiffe://example.org/ns/a/b/session/c",
            "spiffe://example.org/NS/a/session/b",
            "spiffe://example.org/x/ns/a/session/b",
        ] {
            assert_eq!(SpiffeId::parse(text).expect(text).session(), None, "{text}");
        }
    }

    /// SPIFFE-ID, sections 2.1 to 2.4.
    #[test]
    fn what_is_no_spiffe_id_is_refused() {
        let long = format!("spiffe://example.org/{}", "a".repeat(MAX_ID));
        let domain = format!("spiffe://{}/a", "a".repeat(MAX_TRUST_DOMAIN + 1));
        for text in [
            "",
            "spiffe:",
            "spiffe://",
            "spiffe:///ns/a/session/b",
            "SPIFFE://example.org/ns/a/session/b",
            "https://example.org/ns/a/session/b",
            "spiffe://Example.org/ns/a/session/b",
            "spiffe://example.org:443/ns/a/session/b",
            "spiffe://user@example.org/ns/a/session/b",
            "spiffe://example.org/",
            "spiffe://example.org/ns/a/session/b/",
            "spiffe://example.org//ns/a/session/b",
            "spiffe://example.org/ns/../session/b",
            "spiffe://example.org/ns/./session/b",
            "spiffe://example.org/ns/a/session/b?x=1",
            "spiffe://example.org/ns/a/session/b#x",
            "spiffe://example.org/ns/a/session/b%2Fc",
            "spiffe://example.org/ns/a/session/b c",
            " spiffe://example.org/ns/a/session/b",
            "spiffe://example.org/ns/\u{e9}/session/b",
            &long,
            &domain,
        ] {
            assert_eq!(SpiffeId::parse(text), None, "{text}");
        }
    }
}
