//! Giving a stored reply the id of the retry that it is replayed for (`fingerprint: call`).

use std::ops::Range;

use bytes::Bytes;

use super::event_stream::events;
use super::media_type::{is_event_stream, is_json};
use crate::claim::json::{Document, Kind, Value};

/// The stored body with the id of its response replaced by `new_id`, the JSON text of another id;
/// every other byte stays (CONTRACT section 3, "Hashes").
///
/// A body that is neither JSON nor an event stream, is empty, or whose response is an error without
/// an id has nothing to replace and comes back as it is. `None` where the place cannot be told for
/// certain; with [`Rules::replace_ids`](super::Rules) such a reply is never kept.
pub fn replace_id(stored: &Bytes, content_type: Option<&[u8]>, new_id: &str) -> Option<Bytes> {
    let place = if stored.is_empty() {
        Place::Nowhere
    } else if is_json(content_type) {
        response_id(Document::parse(stored).ok()?.root())
    } else if is_event_stream(content_type) {
        place_in_stream(stored)?
    } else {
        Place::Nowhere
    };
    match place {
        Place::At(span) => {
            let parts = [stored.get(..span.start)?, new_id.as_bytes(), stored.get(span.end..)?];
            Some(parts.concat().into())
        }
        Place::Nowhere => Some(stored.clone()),
        Place::NoResponse => None,
    }
}

enum Place {
    At(Range<usize>),
    /// There is no id to replace.
    Nowhere,
    NoResponse,
}

fn place_in_stream(stream: &[u8]) -> Option<Place> {
    let mut found = None;
    for event in events(stream) {
        let data = event.data();
        let Ok(document) = Document::parse(&data) else {
            continue;
        };
        let place = match response_id(document.root()) {
            Place::At(span) => Place::At(event.place(span)?),
            Place::Nowhere => Place::Nowhere,
            Place::NoResponse => continue,
        };
        if found.replace(place).is_some() {
            return None;
        }
    }
    found
}

fn response_id(message: Value<'_, '_>) -> Place {
    if message.kind() != Kind::Object || message.get("method").is_some() {
        return Place::NoResponse;
    }
    match message.get("id") {
        Some(id) if matches!(id.kind(), Kind::Array | Kind::Object) => Place::NoResponse,
        Some(id) => Place::At(id.span()),
        None if message.get("error").is_some() => Place::Nowhere,
        None => Place::NoResponse,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: Option<&[u8]> = Some(b"application/json; charset=utf-8");
    const STREAM: Option<&[u8]> = Some(b"text/event-stream");

    #[track_caller]
    fn check(content_type: Option<&[u8]>, stored: &str, new_id: &str, expected: Option<&str>) {
        let replaced = replace_id(&Bytes::from(stored.to_owned()), content_type, new_id);
        let expected = expected.map(|body| Bytes::from(body.to_owned()));
        assert_eq!(replaced, expected, "{stored}");
    }

    #[test]
    fn only_the_top_level_id_of_a_json_reply_changes() {
        check(
            JSON,
            " {\"id\" : 1 ,\"result\":{\"id\":1,\"n\":1.0} }\n",
            "\"next\"",
            Some(" {\"id\" : \"next\" ,\"result\":{\"id\":1,\"n\":1.0} }\n"),
        );
        check(
            JSON,
            r#"{"result":{"id":"a"},"\u0069d":"a"}"#,
            "1234567890",
            Some(r#"{"result":{"id":"a"},"\u0069d":1234567890}"#),
        );
        check(
            JSON,
            r#"{"id":null,"error":{"code":-32700}}"#,
            "7",
            Some(r#"{"id":7,"error":{"code":-32700}}"#),
        );
    }

    #[test]
    fn bodies_without_an_id_come_back_as_they_are() {
        for (content_type, body) in [
            (JSON, ""),
            (JSON, r#"{"error":{"code":-32700}}"#),
            (None, r#"{"id":1}"#),
            (Some(&b"text/html"[..]), "<p id=1>"),
            (STREAM, ""),
        ] {
            check(content_type, body, "7", Some(body));
        }
    }

    #[test]
    fn the_response_event_of_a_stream_changes_and_nothing_else() {
        check(
            STREAM,
            "\u{feff}: hi\r\nid: 1\r\ndata: {\"method\":\"x\",\"params\":{\"id\":1}}\r\n\r\ndata: {\"id\":1,\"result\":{\"id\":1}}\r\n\r\nretry: 1\r\n",
            "22",
            Some(
                "\u{feff}: hi\r\nid: 1\r\ndata: {\"method\":\"x\",\"params\":{\"id\":1}}\r\n\r\ndata: {\"id\":22,\"result\":{\"id\":1}}\r\n\r\nretry: 1\r\n",
            ),
        );
        check(
            STREAM,
            "data: {\"result\":{},\rdata:\rdata: \"id\":\rdata:   \"a\"\rdata:}\r\r",
            "9",
            Some("data: {\"result\":{},\rdata:\rdata: \"id\":\rdata:   9\rdata:}\r\r"),
        );
    }

    #[test]
    fn an_uncertain_place_is_none() {
        check(JSON, r#"{"id":1"#, "7", None);
        check(JSON, "[]", "7", None);
        check(JSON, r#"{"id":1,"method":"x"}"#, "7", None);
        check(STREAM, "data: {\"method\":\"x\"}\n\n", "7", None);
        check(
            STREAM,
            "data: {\"id\":1,\"result\":{}}\n\ndata: {\"id\":2,\"result\":{}}\n\n",
            "7",
            None,
        );
        check(STREAM, "data: {\"id\":1,\"result\":{}}\n", "7", None);
    }
}
