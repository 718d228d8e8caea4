//! A JSON Web Token in compact form (RFC 7515, 7.1; RFC 7519), read strictly.
//!
//! The general JWT libraries verify by other cryptography than the one that TLS here already brings,
//! read the clock themselves, and take the last of two claims of one name. Reading the three parts
//! is little beside that: names are unique at every depth, because [`Document`] refuses others, and
//! whatever a header asks for that is not known here is refused.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::fault::TokenFault;
use crate::claim::{Document, Kind, Value};
use crate::policy::Algorithm;

/// A signed token, its signature not yet verified.
pub(super) struct Token<'t> {
    /// What it says it is signed with.
    pub algorithm: Algorithm,
    /// Which key of its issuer.
    pub key_id: Option<String>,
    /// The claims, as JSON text.
    pub claims: Vec<u8>,
    /// What the signature covers.
    pub signed: &'t [u8],
    /// The signature.
    pub signature: Vec<u8>,
}

/// What a bearer token is.
pub(super) enum Form<'t> {
    /// A JWT.
    Signed(Token<'t>),
    /// Something that only its issuer can read.
    Opaque,
}

/// Tells a JWT, whose first part is a JSON object, from an opaque token.
pub(super) fn read(token: &[u8]) -> Result<Form<'_>, TokenFault> {
    let mut parts = token.split(|byte| *byte == b'.');
    let header = parts.next().and_then(decode).filter(|text| text.starts_with(b"{"));
    let (Some(header), Some(claims)) = (header, parts.next()) else { return Ok(Form::Opaque) };
    let (Some(signature), None) = (parts.next(), parts.next()) else {
        return Err(TokenFault::Malformed);
    };
    let (algorithm, key_id) = read_header(&header)?;
    Ok(Form::Signed(Token {
        algorithm,
        key_id,
        claims: decode(claims).ok_or(TokenFault::Malformed)?,
        signed: &token[..token.len() - signature.len() - 1],
        signature: decode(signature).ok_or(TokenFault::Malformed)?,
    }))
}

fn decode(part: &[u8]) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(part).ok()
}

fn read_header(text: &[u8]) -> Result<(Algorithm, Option<String>), TokenFault> {
    let document = Document::parse(text).map_err(|_| TokenFault::Malformed)?;
    let header = document.root();
    // Whatever is critical is an extension that this reader does not know (RFC 7515, 4.1.11).
    if header.get("crit").is_some() || !header.get("typ").is_none_or(is_access_token) {
        return Err(TokenFault::Malformed);
    }
    let algorithm = header.get("alg").and_then(Value::as_str).ok_or(TokenFault::Malformed)?;
    let algorithm = Algorithm::of(&algorithm).ok_or(TokenFault::Algorithm)?;
    let key_id = match header.get("kid") {
        None => None,
        Some(id) => Some(id.as_str().ok_or(TokenFault::Malformed)?.into_owned()),
    };
    Ok((algorithm, key_id))
}

/// Whether a `typ` is that of an access token (RFC 9068, 2.1) or says nothing. Any other is a token
/// for another purpose, whose signature proves nothing here (RFC 8725, 3.11).
fn is_access_token(typ: Value<'_, '_>) -> bool {
    let Some(typ) = typ.as_str() else { return false };
    let typ = typ.to_ascii_lowercase();
    matches!(typ.strip_prefix("application/").unwrap_or(&typ), "jwt" | "at+jwt")
}

/// The claims of a token, or the answer about one: a JSON object.
pub(super) fn object<'d, 'a>(document: &'d Document<'a>) -> Option<Value<'d, 'a>> {
    Some(document.root()).filter(|root| root.kind() == Kind::Object)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(text: &str) -> String {
        URL_SAFE_NO_PAD.encode(text)
    }

    fn fault(token: &str) -> Option<TokenFault> {
        read(token.as_bytes()).err()
    }

    fn with_header(header: &str) -> Option<TokenFault> {
        fault(&format!("{}.{}.AA", encoded(header), encoded("{}")))
    }

    #[test]
    fn a_signed_token_is_its_three_parts() {
        let token = format!("{}.{}.AQI", encoded(r#"{"alg":"ES256","kid":"k"}"#), encoded("{}"));
        let Ok(Form::Signed(read)) = read(token.as_bytes()) else { panic!("signed") };
        assert_eq!((read.algorithm, read.key_id.as_deref()), (Algorithm::Es256, Some("k")));
        assert_eq!((read.claims.as_slice(), read.signature.as_slice()), (&b"{}"[..], &[1, 2][..]));
        assert_eq!(read.signed, token.strip_suffix(".AQI").expect("the end").as_bytes());
    }

    #[test]
    fn what_has_no_json_header_is_opaque() {
        for token in ["mF_9.B5f-4.1JqM", "opaque", "a.b", "", "eyJhbGciOiJub25lIn0"] {
            assert!(matches!(read(token.as_bytes()), Ok(Form::Opaque)), "{token}");
        }
    }

    #[test]
    fn symmetric_algorithms_and_none_do_not_exist() {
        for alg in ["none", "None", "NONE", "HS256", "HS384", "HS512", "rs256", "ES256K", ""] {
            let header = format!(r#"{{"alg":"{alg}"}}"#);
            assert_eq!(with_header(&header), Some(TokenFault::Algorithm), "{alg}");
        }
    }

    #[test]
    fn a_header_is_strict_and_asks_for_nothing_unknown() {
        for header in [
            r#"{"alg":"RS256","alg":"none"}"#,
            r#"{"alg":"RS256","kid":"a","kid":"b"}"#,
            r#"{"alg":"RS256","crit":["b64"],"b64":false}"#,
            r#"{"alg":"RS256","crit":[]}"#,
            r#"{"alg":"RS256","typ":"dpop+jwt"}"#,
            r#"{"alg":"RS256","typ":"logout+jwt"}"#,
            r#"{"alg":"RS256","typ":1}"#,
            r#"{"alg":"RS256","kid":7}"#,
            r#"{"alg":["RS256"]}"#,
            r#"{"kid":"a"}"#,
            r#"{"alg":"RS256"} "#,
            r#"{"alg":"RS256"}{"#,
        ] {
            let expected = (!header.ends_with(' ')).then_some(TokenFault::Malformed);
            assert_eq!(with_header(header), expected, "{header}");
        }
        for typ in ["JWT", "at+jwt", "application/at+jwt", "AT+JWT"] {
            assert_eq!(with_header(&format!(r#"{{"alg":"RS256","typ":"{typ}"}}"#)), None, "{typ}");
        }
    }

    #[test]
    fn the_parts_are_base64url_without_padding() {
        let header = encoded(r#"{"alg":"RS256"}"#);
        for rest in ["e30=.AA", "e30.AA=", "e3 0.AA", "e30.A/A", "e30.AB", "e30", "e30.AA.AA.AA"] {
            let token = format!("{header}.{rest}");
            assert_eq!(fault(&token), Some(TokenFault::Malformed), "{token}");
        }
    }
}
