//! The media types that matter: compared without case, parameters read where they can change what
//! a body means.

/// Whether a request's `Content-Type` is `application/json` in UTF-8 (CONTRACT section 3,
/// "Inspect"): a charset other than utf-8 counts as another type, and so does a value whose
/// parameters cannot be read.
pub fn is_utf8_json(content_type: &[u8]) -> bool {
    let mut rest = match content_type.iter().position(|&byte| byte == b';') {
        Some(at) => &content_type[at..],
        None => &[],
    };
    while !rest.is_empty() {
        let Some((name, value, after)) = parameter(rest) else { return false };
        let is_charset = name.eq_ignore_ascii_case(b"charset");
        if is_charset && !value.eq_ignore_ascii_case(b"utf-8") {
            return false;
        }
        rest = after;
    }
    is_json(Some(content_type))
}

/// The first parameter of `;name=value…`, and what follows it. A value may be quoted; an escape in
/// it is left as it is, since no name of a charset needs one. An empty parameter has no name.
fn parameter(list: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let list = list.strip_prefix(b";")?.trim_ascii_start();
    if list.is_empty() || list.starts_with(b";") {
        return Some((b"", b"", list));
    }
    let equals = list.iter().position(|&byte| byte == b'=')?;
    let (name, value) = (&list[..equals], &list[equals + 1..]);
    let (value, after) = match value.strip_prefix(b"\"") {
        Some(quoted) => {
            let end = quoted.iter().position(|&byte| byte == b'"')?;
            (&quoted[..end], quoted[end + 1..].trim_ascii_start())
        }
        None => {
            let end = value.iter().position(|&byte| byte == b';').unwrap_or(value.len());
            (value[..end].trim_ascii_end(), &value[end..])
        }
    };
    let is_token = !name.is_empty() && name.iter().all(|byte| byte.is_ascii_graphic());
    (is_token && (after.is_empty() || after.starts_with(b";"))).then_some((name, value, after))
}

/// Whether a `Content-Type` value is `application/json`, whatever its parameters.
///
/// Types that only end in `+json` are other types: what they hold need not be JSON-RPC.
pub fn is_json(content_type: Option<&[u8]>) -> bool {
    essence_is(content_type, b"application/json")
}

/// Whether a `Content-Type` value is `text/event-stream`, whatever its parameters.
pub(super) fn is_event_stream(content_type: Option<&[u8]>) -> bool {
    essence_is(content_type, b"text/event-stream")
}

fn essence_is(content_type: Option<&[u8]>, wanted: &[u8]) -> bool {
    content_type
        .and_then(|value| value.split(|&byte| byte == b';').next())
        .is_some_and(|essence| essence.trim_ascii().eq_ignore_ascii_case(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_json_in_utf_8() {
        for value in [
            "application/json",
            "Application/JSON;charset=\"UTF-8\"",
            "application/json ; profile=x ; charset=utf-8 ",
            "application/json;",
            "application/json; note=\"a;charset=latin1\"",
        ] {
            assert!(is_utf8_json(value.as_bytes()), "{value}");
        }
        for value in [
            "application/json; charset=utf-16",
            "application/json; charset=utf-8; charset=latin1",
            "application/json; profile=x; charset=\"latin1\"",
            "application/json; charset",
            "application/json; charset=\"utf-8",
            "application/json; a b=c",
            "text/plain; x=application/json",
            "application/json-patch+json",
            "",
        ] {
            assert!(!is_utf8_json(value.as_bytes()), "{value}");
        }
    }

    #[test]
    fn case_space_and_parameters_do_not_matter() {
        for (value, json, stream) in [
            ("application/json", true, false),
            ("Application/JSON; charset=utf-8", true, false),
            (" application/json ;charset=\"utf-8\"", true, false),
            ("text/event-stream", false, true),
            ("TEXT/Event-Stream;charset=UTF-8", false, true),
            ("application/json-seq", false, false),
            ("application/problem+json", false, false),
            ("application/jso", false, false),
            ("", false, false),
        ] {
            assert_eq!(is_json(Some(value.as_bytes())), json, "{value}");
            assert_eq!(is_event_stream(Some(value.as_bytes())), stream, "{value}");
        }
        assert!(!is_json(None) && !is_event_stream(None));
    }
}
