//! Answers that are not refusals: an upstream's reply on its way, and a stored one again (CONTRACT
//! section 7).

use actix_web::HttpResponse;
use actix_web::body::BoxBody;
use actix_web::http::StatusCode;
use actix_web::http::header::{self, HeaderName, HeaderValue};

use super::telling::Telling;
use crate::claim::Reply;
use crate::upstream::headers::response_headers;
use crate::upstream::replace_id;

/// Marks a replay; an upstream cannot set it.
const IDEMPOTENCY_REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// The head of an upstream's reply as the client gets it. With `own_cors` the upstream's CORS
/// headers are left out.
pub fn head(
    status: u16,
    headers: &hyper::HeaderMap,
    own_cors: bool,
    body: BoxBody,
) -> HttpResponse {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
    let mut response = HttpResponse::with_body(status, body);
    response_headers(headers, own_cors, response.headers_mut());
    response
}

/// A stored reply again: status, `Content-Type` and body, byte for byte, save what is told in its
/// `_meta`. Where the fingerprint left the id out, `retrys_id` takes the place of the first call's.
pub fn replay(stored: &Reply, retrys_id: Option<&str>, telling: &Telling) -> HttpResponse {
    let content_type = stored.content_type();
    let renumbered = retrys_id
        .and_then(|id| replace_id(stored.body(), content_type.map(|value| value.as_ref()), id));
    let body = renumbered.unwrap_or_else(|| stored.body().clone());
    let body = BoxBody::new(telling.fill(content_type.map(|value| value.as_ref()), body));
    let status = StatusCode::from_u16(stored.status()).unwrap_or(StatusCode::BAD_GATEWAY);
    let mut response = HttpResponse::with_body(status, body);
    if let Some(value) = content_type.and_then(|value| HeaderValue::from_bytes(value).ok()) {
        response.headers_mut().insert(header::CONTENT_TYPE, value);
    }
    mark_replayed(&mut response);
    response
}

/// Says that a response is a replay.
pub fn mark_replayed(response: &mut HttpResponse) {
    response.headers_mut().insert(IDEMPOTENCY_REPLAYED, HeaderValue::from_static("true"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use actix_web::body::to_bytes;
    use actix_web::web::Bytes;

    fn stored(content_type: Option<&'static str>, body: &'static [u8]) -> Reply {
        let content_type = content_type.map(|value| Bytes::from_static(value.as_bytes()));
        Reply::new(201, content_type, Bytes::from_static(body), 1024).expect("within the cap")
    }

    #[actix_web::test]
    async fn a_replay_is_status_content_type_and_body_and_nothing_else() {
        let response =
            replay(&stored(Some("text/odd; q=\"1\""), b"\xff\x00 x\n"), None, &Telling::default());
        assert_eq!(response.status(), 201);
        let mut names: Vec<_> = response.headers().keys().map(|name| name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, ["content-type", "idempotency-replayed"]);
        assert_eq!(response.headers().get("content-type").expect("kept"), "text/odd; q=\"1\"");
        let body = to_bytes(response.into_body()).await.expect("a body");
        assert_eq!(body, Bytes::from_static(b"\xff\x00 x\n"));
    }

    #[actix_web::test]
    async fn an_absent_content_type_stays_absent() {
        let response = replay(&stored(None, b""), None, &Telling::default());
        assert!(!response.headers().contains_key("content-type"));
    }

    #[actix_web::test]
    async fn the_retrys_id_takes_the_place_of_the_first_ones() {
        let first =
            stored(Some("application/json"), br#"{"jsonrpc":"2.0","id":1,"result":{"id":1}}"#);
        let response = replay(&first, Some("\"r-2\""), &Telling::default());
        let body = to_bytes(response.into_body()).await.expect("a body");
        assert_eq!(body, r#"{"jsonrpc":"2.0","id":"r-2","result":{"id":1}}"#);
    }
}
