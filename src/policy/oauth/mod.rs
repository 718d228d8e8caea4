//! Mode `oauth`: which issuer's access tokens a server takes, and whom they stand for (CONTRACT
//! section 9).

mod algorithm;
pub(super) mod fields;
mod url;

use std::time::Duration;

use hyper::Uri;

pub use algorithm::Algorithm;
pub use url::{RESOURCE_METADATA, Resource, endpoint_url};

use super::build::Mistake;
use super::document;
use super::secret::{LoadedSecret, SecretSources};
use url::ENDPOINT_FORM;

/// The most names of one list of claims, scopes or algorithms.
pub const MAX_LISTED: usize = 16;
/// The most bytes of one name, scope, identifier or URL.
pub const MAX_TEXT: usize = 1024;
/// The most that clocks may differ.
pub const MAX_LEEWAY: Duration = Duration::from_secs(300);
/// The longest that the answer about an opaque token is believed.
pub const MAX_INTROSPECTION_CACHE: Duration = Duration::from_secs(300);

const DEFAULT_LEEWAY: Duration = Duration::from_secs(30);
const DEFAULT_INTROSPECTION_CACHE: Duration = Duration::from_secs(30);
/// Of each family the one that issuers use.
const DEFAULT_ALGORITHMS: [Algorithm; 4] =
    [Algorithm::Rs256, Algorithm::Ps256, Algorithm::Es256, Algorithm::EdDsa];

/// The rules of one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OAuth {
    /// The issuer, exactly as tokens and metadata name it.
    pub issuer: String,
    /// Of these a token must name one: the configured audience and the resource.
    pub audiences: Vec<String>,
    /// The server's canonical URI, where the document says it.
    pub resource: Option<Resource>,
    /// The scopes that every request needs.
    pub scopes: Vec<String>,
    /// The algorithms that a token may be signed with; never empty.
    pub algorithms: Vec<Algorithm>,
    /// How far the issuer's clock may differ.
    pub leeway: Duration,
    /// Where a token says whom it stands for.
    pub claims: PrincipalClaims,
    /// How tokens that say nothing themselves are looked up.
    pub introspection: Option<Introspection>,
    /// What every challenge says beside its error: where the metadata is, and the scopes.
    pub challenge: String,
}

/// For each part of a principal the claims that may hold it; the first that is there does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrincipalClaims {
    /// `sub`, unless the document says otherwise.
    pub human: Vec<String>,
    /// `client_id`, then `azp`.
    pub agent: Vec<String>,
    /// `team_id`.
    pub team: Vec<String>,
}

/// Where opaque tokens are looked up (RFC 7662).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Introspection {
    /// The endpoint; `None` where the issuer's metadata names it.
    pub endpoint: Option<Uri>,
    /// What the gateway is called there.
    pub client_id: String,
    /// Its secret there.
    pub client_secret: LoadedSecret,
    /// How long an answer is believed.
    pub cache: Duration,
}

/// Reads the `auth` table.
pub(super) fn build(auth: document::Auth, sources: &SecretSources<'_>) -> Result<OAuth, Mistake> {
    let issuer = issuer(set(auth.issuer_url))?;
    let audience = set(auth.audience);
    let resource = resource(set(auth.resource), audience.as_deref())?;
    let scopes = scopes(auth.scopes.unwrap_or_default())?;
    Ok(OAuth {
        issuer,
        audiences: audiences(audience, resource.as_ref())?,
        challenge: challenge(resource.as_ref(), &scopes),
        resource,
        scopes,
        algorithms: algorithms(auth.algorithms.0)?,
        leeway: bounded("leeway", auth.leeway, DEFAULT_LEEWAY, MAX_LEEWAY)?,
        claims: claims(auth.claims.unwrap_or_default())?,
        introspection: auth
            .introspection
            .map(|fields| introspection(fields, sources))
            .transpose()?,
    })
}

fn issuer(issuer: Option<String>) -> Result<String, Mistake> {
    let issuer = issuer.ok_or_else(|| at("issuer_url", "is required in mode `oauth`"))?;
    if endpoint_url(&issuer).is_none_or(|url| url.query().is_some()) {
        return Err(at("issuer_url", &format!("{ENDPOINT_FORM}, without a query")));
    }
    Ok(issuer)
}

/// The resource that the document names; else the audience, where that is the URL of a server.
fn resource(resource: Option<String>, audience: Option<&str>) -> Result<Option<Resource>, Mistake> {
    let Some(uri) = resource else { return Ok(audience.and_then(Resource::parse)) };
    match Resource::parse(&uri) {
        Some(resource) => Ok(Some(resource)),
        None => Err(at("resource", "must be the absolute URL that clients call, without a query")),
    }
}

fn audiences(
    audience: Option<String>,
    resource: Option<&Resource>,
) -> Result<Vec<String>, Mistake> {
    let mut audiences = resource.map(Resource::names).unwrap_or_default();
    audiences.extend(audience.filter(|audience| !audiences.contains(audience)));
    if audiences.is_empty() {
        return Err(at(
            "audience",
            "is required in mode `oauth`, unless `auth.resource` names the URL that clients call: \
             without it, a token for any other server would be taken",
        ));
    }
    listed("audience", &audiences)?;
    Ok(audiences)
}

fn scopes(scopes: Vec<String>) -> Result<Vec<String>, Mistake> {
    listed("scopes", &scopes)?;
    // RFC 6749, appendix A.4; so a challenge can quote them.
    let fits = |byte| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e);
    match scopes.iter().position(|scope| !scope.bytes().all(fits)) {
        None => Ok(scopes),
        Some(index) => Err(at(
            &format!("scopes[{index}]"),
            "must be visible ASCII characters without a quote or a backslash",
        )),
    }
}

fn algorithms(listed: Vec<Algorithm>) -> Result<Vec<Algorithm>, Mistake> {
    if listed.len() > MAX_LISTED {
        return Err(at("algorithms", &format!("must list at most {MAX_LISTED}")));
    }
    Ok(if listed.is_empty() { DEFAULT_ALGORITHMS.to_vec() } else { listed })
}

fn claims(fields: fields::Claims) -> Result<PrincipalClaims, Mistake> {
    let part = |name: &str, names: Option<Vec<String>>, default: &[&str]| {
        let names = names.unwrap_or_else(|| default.iter().map(|one| (*one).to_owned()).collect());
        listed(&format!("claims.{name}"), &names).map(|()| names)
    };
    let claims = PrincipalClaims {
        human: part("human", fields.human, &["sub"])?,
        agent: part("agent", fields.agent, &["client_id", "azp"])?,
        team: part("team", fields.team, &["team_id"])?,
    };
    if [&claims.human, &claims.agent, &claims.team].iter().all(|names| names.is_empty()) {
        return Err(at("claims", "must name a claim for one part of the principal at least"));
    }
    Ok(claims)
}

fn introspection(
    fields: fields::Introspection,
    sources: &SecretSources<'_>,
) -> Result<Introspection, Mistake> {
    let endpoint = match set(fields.endpoint) {
        None => None,
        Some(text) => {
            Some(endpoint_url(&text).ok_or_else(|| at("introspection.endpoint", ENDPOINT_FORM))?)
        }
    };
    if fields.client_id.is_empty() || fields.client_id.len() > MAX_TEXT {
        return Err(at("introspection.client_id", &format!("must have 1 to {MAX_TEXT} bytes")));
    }
    Ok(Introspection {
        endpoint,
        client_id: fields.client_id,
        client_secret: LoadedSecret::load(
            &fields.client_secret,
            "auth.introspection.client_secret",
            sources,
        )?,
        cache: bounded(
            "introspection.cache",
            fields.cache,
            DEFAULT_INTROSPECTION_CACHE,
            MAX_INTROSPECTION_CACHE,
        )?,
    })
}

/// The parameters of every challenge; empty where there is nothing to say.
fn challenge(resource: Option<&Resource>, scopes: &[String]) -> String {
    let metadata = resource.map(|one| format!("resource_metadata=\"{}\"", one.metadata_url));
    let scopes = (!scopes.is_empty()).then(|| format!("scope=\"{}\"", scopes.join(" ")));
    metadata.into_iter().chain(scopes).collect::<Vec<_>>().join(", ")
}

/// Checks a list of texts: how many, how long, none empty, none twice.
fn listed(field: &str, texts: &[String]) -> Result<(), Mistake> {
    if texts.len() > MAX_LISTED {
        return Err(at(field, &format!("must list at most {MAX_LISTED}")));
    }
    for (index, text) in texts.iter().enumerate() {
        let wrong = |problem: &str| Err(at(&format!("{field}[{index}]"), problem));
        if text.is_empty() || text.len() > MAX_TEXT {
            return wrong(&format!("must have 1 to {MAX_TEXT} bytes"));
        }
        if texts.iter().take(index).any(|earlier| earlier == text) {
            return wrong("is listed twice");
        }
    }
    Ok(())
}

fn bounded(
    field: &str,
    value: Option<Duration>,
    default: Duration,
    most: Duration,
) -> Result<Duration, Mistake> {
    match value.unwrap_or(default) {
        value if value <= most => Ok(value),
        _ => Err(at(field, &format!("must be at most {}s", most.as_secs()))),
    }
}

fn set(text: document::Text) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

fn at(field: &str, problem: &str) -> Mistake {
    (format!("auth.{field}"), problem.to_owned())
}
