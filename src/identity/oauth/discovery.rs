//! An issuer's metadata: where it may stand, and what of it counts (RFC 8414; OpenID Connect
//! Discovery 1.0).

use hyper::Uri;
use serde::Deserialize;

use super::fetch::{FetchError, Fetcher};
use super::keys::Keys;
use crate::policy::endpoint_url;

/// What an issuer says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Metadata {
    /// Where its keys are; an issuer of opaque tokens has none.
    pub jwks: Option<Uri>,
    /// Where opaque tokens are looked up.
    pub introspection: Option<Uri>,
}

/// Why the keys of an issuer are not known.
#[derive(Debug, thiserror::Error)]
pub(super) enum DiscoveryError {
    /// It did not answer.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// What it answered is no metadata.
    #[error("{0} is no metadata of an authorization server")]
    NoMetadata(Uri),
    /// The metadata is another issuer's.
    #[error("{0} names another issuer; `auth.issuer_url` must be exactly what it says")]
    OtherIssuer(Uri),
    /// An endpoint of the metadata is one that neither keys nor secrets may travel to.
    #[error("{0} names an endpoint that is no `https` URL")]
    Insecure(Uri),
    /// What stands at `jwks_uri` is no key set.
    #[error("{0} is no key set")]
    NoKeys(Uri),
    /// The issuer's name makes no URL.
    #[error("the issuer has no place for metadata")]
    NoPlace,
}

impl DiscoveryError {
    fn is_about_content(&self) -> bool {
        !matches!(self, Self::Fetch(_) | Self::NoPlace)
    }
}

#[derive(Deserialize)]
struct Published {
    issuer: String,
    #[serde(default)]
    jwks_uri: Option<String>,
    #[serde(default)]
    introspection_endpoint: Option<String>,
}

/// Finds out about an issuer, and its keys.
pub(super) async fn discover(
    issuer: &str,
    fetcher: &Fetcher,
) -> Result<(Metadata, Keys), DiscoveryError> {
    let metadata = metadata(issuer, fetcher).await?;
    let keys = match &metadata.jwks {
        None => Keys::none(),
        Some(url) => Keys::parse(&fetcher.get(url).await?)
            .ok_or_else(|| DiscoveryError::NoKeys(url.clone()))?,
    };
    Ok((metadata, keys))
}

/// The first place that holds this issuer's metadata; else what was wrong: with what some place
/// holds, if one holds anything.
async fn metadata(issuer: &str, fetcher: &Fetcher) -> Result<Metadata, DiscoveryError> {
    let mut problem = DiscoveryError::NoPlace;
    for url in places(issuer) {
        let read = match fetcher.get(&url).await {
            Ok(text) => read(&text, issuer, &url),
            // Whoever cannot be reached here is not asked for the other places.
            Err(error @ (FetchError::Failed(..) | FetchError::Slow(_))) => return Err(error.into()),
            Err(error) => Err(error.into()),
        };
        match read {
            Ok(metadata) => return Ok(metadata),
            // That a place is empty says less than what another one holds.
            Err(DiscoveryError::Fetch(_)) if problem.is_about_content() => {}
            Err(error) => problem = error,
        }
    }
    Err(problem)
}

/// Where metadata may stand, in the order that MCP clients try them.
fn places(issuer: &str) -> impl Iterator<Item = Uri> {
    let uri = endpoint_url(issuer);
    let root =
        uri.as_ref().and_then(|uri| Some(format!("{}://{}", uri.scheme_str()?, uri.authority()?)));
    let path = uri.as_ref().map_or("", |uri| uri.path()).trim_end_matches('/').to_owned();
    let root = root.unwrap_or_default();
    let mut places = vec![
        format!("{root}/.well-known/oauth-authorization-server{path}"),
        format!("{root}/.well-known/openid-configuration{path}"),
    ];
    if !path.is_empty() {
        places.push(format!("{root}{path}/.well-known/openid-configuration"));
    }
    places.into_iter().filter_map(|place| endpoint_url(&place))
}

fn read(text: &[u8], issuer: &str, url: &Uri) -> Result<Metadata, DiscoveryError> {
    let published: Published =
        serde_json::from_slice(text).map_err(|_| DiscoveryError::NoMetadata(url.clone()))?;
    if published.issuer != issuer {
        return Err(DiscoveryError::OtherIssuer(url.clone()));
    }
    let endpoint = |text: Option<String>| match text {
        None => Ok(None),
        Some(text) => {
            endpoint_url(&text).map(Some).ok_or_else(|| DiscoveryError::Insecure(url.clone()))
        }
    };
    Ok(Metadata {
        jwks: endpoint(published.jwks_uri)?,
        introspection: endpoint(published.introspection_endpoint)?,
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{FakeIssuer, trust};
    use super::*;

    #[actix_web::test]
    async fn an_empty_place_does_not_hide_what_is_wrong_with_another() {
        let issuer = FakeIssuer::start(&[]).await;
        // It calls itself so without the slash, in the first of the two places.
        let name = format!("{}/", issuer.url());
        let found = metadata(&name, &Fetcher::new(trust())).await;
        assert!(matches!(found, Err(DiscoveryError::OtherIssuer(_))), "{found:?}");
        assert_eq!(issuer.asked("/.well-known/openid-configuration"), 1);
    }

    #[test]
    fn metadata_stands_where_rfc_8414_and_openid_say() {
        // The order of the MCP authorization specification, "Authorization Server Metadata
        // Discovery".
        for (issuer, expected) in [
            (
                "https://auth.example.com/tenant1",
                vec![
                    "https://auth.example.com/.well-known/oauth-authorization-server/tenant1",
                    "https://auth.example.com/.well-known/openid-configuration/tenant1",
                    "https://auth.example.com/tenant1/.well-known/openid-configuration",
                ],
            ),
            (
                "https://auth.example.com/",
                vec![
                    "https://auth.example.com/.well-known/oauth-authorization-server",
                    "https://auth.example.com/.well-known/openid-configuration",
                ],
            ),
        ] {
            let places: Vec<_> = places(issuer).map(|place| place.to_string()).collect();
            assert_eq!(places, expected);
        }
    }

    #[test]
    fn metadata_is_the_issuers_own_and_names_secure_places() {
        let url = Uri::from_static("https://as.example/m");
        let read = |text: &str| read(text.as_bytes(), "https://as.example", &url);
        let good = r#"{"issuer":"https://as.example","jwks_uri":"https://keys.example/k"}"#;
        let metadata = read(good).expect("metadata");
        assert_eq!(metadata.jwks, Some(Uri::from_static("https://keys.example/k")));
        assert_eq!(metadata.introspection, None);
        assert!(matches!(
            read(r#"{"issuer":"https://as.example/"}"#),
            Err(DiscoveryError::OtherIssuer(_))
        ));
        for insecure in ["http://keys.example/k", "file:///etc/passwd", ""] {
            let text = format!(r#"{{"issuer":"https://as.example","jwks_uri":"{insecure}"}}"#);
            assert!(matches!(read(&text), Err(DiscoveryError::Insecure(_))), "{insecure}");
        }
        for text in ["", "[]", "{}", r#"{"issuer":7}"#] {
            assert!(matches!(read(text), Err(DiscoveryError::NoMetadata(_))), "{text}");
        }
    }
}
