//! What mode `mtls` asks of certificates and of the ingress.

use hyper::header::HeaderName;

use super::auth::{Mistake, mistake};
use super::document;
use super::headers::is_taken;
use super::set::LoadContext;
use crate::identity::SpiffeId;

/// The header that the ingress puts a caller's id in, unless the policy names another one.
const SPIFFE_HEADER: &str = "x-mcp-verified-spiffe-id";

/// Which SPIFFE ids may call, and who may name them for others (CONTRACT section 9).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MtlsRules {
    /// The trust domain of every caller.
    pub trust_domain: String,
    /// The id of the client certificate whose connections may name a caller in
    /// [`MtlsRules::header`]; `None` where nobody may.
    pub ingress: Option<SpiffeId>,
    /// The header of the ingress; sent by anybody else it is refused.
    pub header: HeaderName,
}

/// Reads the fields of the `auth` table.
pub(super) fn build(
    auth: &document::Auth,
    namespace: &str,
    context: LoadContext,
) -> Result<MtlsRules, Mistake> {
    if !context.client_ca {
        return Err(mistake(
            "auth.mode",
            "`mtls` needs a listener that asks clients for certificates: set `client_ca` in \
             `[listen.tls]`",
        ));
    }
    if namespace.is_empty() {
        return Err(mistake(
            "server.namespace",
            "is required with `mode: mtls`: a certificate names the namespace of its session",
        ));
    }
    let set = |text: &document::Text| text.clone().filter(|text| !text.is_empty());
    let trust_domain = set(&auth.trust_domain).unwrap_or_default();
    if !SpiffeId::is_trust_domain(&trust_domain) {
        return Err(mistake(
            "auth.trust_domain",
            "is required with `mode: mtls`: a trust domain such as `example.org`, in lower case",
        ));
    }
    let ingress = set(&auth.ingress_spiffe_id)
        .map(|text| {
            SpiffeId::parse(&text).ok_or_else(|| {
                mistake(
                    "auth.ingress_spiffe_id",
                    "must be a SPIFFE id such as `spiffe://example.org/ns/ingress/sa/proxy`",
                )
            })
        })
        .transpose()?;
    Ok(MtlsRules { trust_domain, header: header(set(&auth.spiffe_header), &ingress)?, ingress })
}

fn header(name: Option<String>, ingress: &Option<SpiffeId>) -> Result<HeaderName, Mistake> {
    let wrong = |problem: &str| mistake("auth.spiffe_header", problem);
    let Some(name) = name else { return Ok(HeaderName::from_static(SPIFFE_HEADER)) };
    if ingress.is_none() {
        return Err(wrong("has no effect without `auth.ingress_spiffe_id`: set both or neither"));
    }
    let header: HeaderName = name.parse().map_err(|_| wrong("is not a valid HTTP header name"))?;
    if is_taken(header.as_str()) {
        return Err(wrong("is taken: choose a header that has no other meaning"));
    }
    Ok(header)
}
