//! Inspect: the body is read whole and scanned strictly before anything is claimed (CONTRACT
//! section 3, "Inspect").

use std::time::Duration;

use actix_web::error::PayloadError;
use actix_web::http::Method;
use actix_web::http::header::{self, HeaderMap};
use actix_web::web::{Bytes, BytesMut, Payload};
use futures_util::StreamExt;

use super::error::Refusal;
use super::key::IDEMPOTENCY_KEY;
use crate::patience::within;
use crate::upstream::media_type::is_utf8_json;

/// What kind of body a request carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Media {
    /// A JSON-RPC message: a POST in `application/json`.
    Json,
    /// A request that is no POST: it may not carry a body.
    NotAPost,
    /// A POST in another media type that carries a key; it is refused once the caller is known.
    OtherWithKey,
}

/// Bounds on reading a body.
#[derive(Debug, Clone, Copy)]
pub struct BodyLimits {
    /// The most bytes of a body (`limits.request_bytes`).
    pub bytes: usize,
    /// How long the next piece may take.
    pub idle: Duration,
}

/// Judges the headers of the body.
///
/// # Errors
///
/// 415 for a content coding, and for a POST in another media type without a key; 413 for a
/// declared length over the cap.
pub fn head(method: &Method, headers: &HeaderMap, limits: BodyLimits) -> Result<Media, Refusal> {
    if has_content_coding(headers) {
        return Err(Refusal::content_encoding());
    }
    if declared_length(headers).is_some_and(|length| length > limits.bytes as u64) {
        return Err(Refusal::request_too_large(limits.bytes));
    }
    if method != Method::POST {
        return Ok(Media::NotAPost);
    }
    match (is_json(headers), headers.contains_key(&IDEMPOTENCY_KEY)) {
        (true, _) => Ok(Media::Json),
        (false, true) => Ok(Media::OtherWithKey),
        (false, false) => Err(Refusal::media_type().close()),
    }
}

/// How long a whole body may take, however steadily it trickles: until it is there nobody has been
/// authenticated.
const WHOLE_BODY: Duration = Duration::from_secs(120);

/// Reads the whole body; one that arrives in one piece is not copied.
///
/// # Errors
///
/// 413 over the cap, 400 where it ends early, 408 where it stalls or trickles.
pub async fn body(payload: &mut Payload, limits: BodyLimits) -> Result<Bytes, Refusal> {
    match within(WHOLE_BODY, read(payload, limits)).await {
        Ok(body) => body,
        Err(_) => Err(Refusal::request_timeout()),
    }
}

async fn read(payload: &mut Payload, limits: BodyLimits) -> Result<Bytes, Refusal> {
    let Some(first) = piece(payload, limits).await? else { return Ok(Bytes::new()) };
    fits(first.len(), limits)?;
    let Some(second) = piece(payload, limits).await? else { return Ok(first) };
    let mut whole = BytesMut::with_capacity(first.len() + second.len());
    whole.extend_from_slice(&first);
    let mut next = Some(second);
    while let Some(bytes) = next {
        fits(whole.len() + bytes.len(), limits)?;
        whole.extend_from_slice(&bytes);
        next = piece(payload, limits).await?;
    }
    Ok(whole.freeze())
}

async fn piece(payload: &mut Payload, limits: BodyLimits) -> Result<Option<Bytes>, Refusal> {
    match within(limits.idle, payload.next()).await {
        Err(_) => Err(Refusal::request_timeout()),
        Ok(None) => Ok(None),
        Ok(Some(Ok(bytes))) => Ok(Some(bytes)),
        Ok(Some(Err(PayloadError::Overflow))) => Err(Refusal::request_too_large(limits.bytes)),
        Ok(Some(Err(_))) => Err(Refusal::request_incomplete()),
    }
}

fn fits(length: usize, limits: BodyLimits) -> Result<(), Refusal> {
    match length > limits.bytes {
        true => Err(Refusal::request_too_large(limits.bytes)),
        false => Ok(()),
    }
}

fn has_content_coding(headers: &HeaderMap) -> bool {
    headers
        .get_all(header::CONTENT_ENCODING)
        .any(|value| !value.as_bytes().eq_ignore_ascii_case(b"identity"))
}

/// The declared length, if there is one that can be read; a wrong one fails while reading.
pub fn declared_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Whether the one `Content-Type` line says `application/json`, in UTF-8 where it names a charset.
fn is_json(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(header::CONTENT_TYPE);
    let first = values.next();
    first.is_some_and(|value| is_utf8_json(value.as_bytes())) && values.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use actix_web::test::TestRequest;

    const LIMITS: BodyLimits = BodyLimits { bytes: 10, idle: Duration::from_secs(1) };

    fn verdict(headers: &[(&str, &str)]) -> Result<Media, &'static str> {
        let mut request = TestRequest::post();
        for (name, value) in headers {
            request = request.append_header((*name, *value));
        }
        let request = request.to_http_request();
        head(request.method(), request.headers(), LIMITS).map_err(|refusal| refusal.reason)
    }

    #[test]
    fn another_media_type_is_refused_at_once_or_with_a_key_later() {
        let utf_8 = "Application/JSON;charset=\"UTF-8\"";
        assert_eq!(verdict(&[("content-type", utf_8)]), Ok(Media::Json));
        for value in ["text/plain; x=application/json", "application/json; charset=utf-16", ""] {
            let refused = Err("unsupported_media_type");
            assert_eq!(verdict(&[("content-type", value)]), refused, "{value}");
            let keyed = verdict(&[("content-type", value), ("idempotency-key", "k")]);
            assert_eq!(keyed, Ok(Media::OtherWithKey), "{value}");
        }
        assert_eq!(verdict(&[]), Err("unsupported_media_type"));
    }

    #[test]
    fn two_content_types_are_none() {
        let twice = [("content-type", "application/json"), ("content-type", "text/plain")];
        assert_eq!(verdict(&twice), Err("unsupported_media_type"));
    }

    #[test]
    fn a_content_coding_is_refused_keyed_or_not() {
        let json = ("content-type", "application/json");
        assert_eq!(
            verdict(&[json, ("content-encoding", "gzip")]),
            Err("unsupported_content_encoding")
        );
        assert_eq!(
            verdict(&[json, ("content-encoding", "gzip"), ("idempotency-key", "k")]),
            Err("unsupported_content_encoding")
        );
        assert_eq!(verdict(&[json, ("content-encoding", "Identity")]), Ok(Media::Json));
    }

    #[test]
    fn a_declared_length_over_the_cap_is_refused_unread() {
        let json = ("content-type", "application/json");
        assert_eq!(verdict(&[json, ("content-length", "11")]), Err("request_too_large"));
        assert_eq!(verdict(&[json, ("content-length", "10")]), Ok(Media::Json));
    }
}
