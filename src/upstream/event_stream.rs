//! A `text/event-stream` body as events, by the rules of the HTML standard ("Server-sent events").

use std::borrow::Cow;
use std::ops::Range;

use smallvec::SmallVec;

use super::answer::{Message, RequestId};
use super::outcome::{NotKept, Outcome, UnknownReason};
use crate::claim::json::{Document, Kind, Value};

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Why a completely recorded stream is not replayed, or `None` where it is: it holds the response
/// to this request exactly once, and no request to the client (CONTRACT section 4).
///
/// No response at all is unknown, whatever else is there. A message that cannot be read might be
/// anything, so it makes the stream not replayable too.
pub(super) fn obstacle(stream: &[u8], id: &RequestId) -> Option<Outcome> {
    let mut seen = Seen::default();
    for event in events(stream) {
        seen.event(&event, id);
    }
    if seen.answers == 0 {
        Some(Outcome::Unknown(UnknownReason::NoResponse))
    } else if seen.requests {
        Some(Outcome::NotReplayable(NotKept::ServerRequest))
    } else if seen.answers > 1 || seen.unreadable {
        Some(Outcome::NotReplayable(NotKept::Unclear))
    } else {
        None
    }
}

#[derive(Default)]
struct Seen {
    answers: usize,
    requests: bool,
    unreadable: bool,
}

impl Seen {
    fn event(&mut self, event: &Event<'_>, id: &RequestId) {
        let data = event.data();
        match Document::parse(&data) {
            Ok(document) => self.message(document.root(), id),
            // Data that does not even begin like a message is some server's keep-alive.
            Err(_) => {
                self.unreadable |= matches!(data.trim_ascii_start().first(), Some(b'{' | b'['));
            }
        }
    }

    fn message(&mut self, message: Value<'_, '_>, id: &RequestId) {
        match id.classify(message) {
            Message::Answer => self.answers += 1,
            Message::Request => self.requests = true,
            Message::OtherAnswer => {}
            // A batch answers nothing, but a request in it is one.
            Message::Other if message.kind() == Kind::Array => {
                self.requests |=
                    message.elements().any(|element| id.classify(element) == Message::Request);
            }
            Message::Other => {}
        }
    }
}

/// One dispatched event of the type that carries messages.
pub(super) struct Event<'s> {
    stream: &'s [u8],
    /// Where the values of its `data` fields stand in the stream.
    lines: SmallVec<[Range<usize>; 1]>,
}

impl<'s> Event<'s> {
    /// Its data: the values of its `data` fields, joined by line feeds.
    pub(super) fn data(&self) -> Cow<'s, [u8]> {
        if let [line] = self.lines.as_slice() {
            return Cow::Borrowed(&self.stream[line.clone()]);
        }
        let lines: Vec<&[u8]> = self.lines.iter().map(|line| &self.stream[line.clone()]).collect();
        Cow::Owned(lines.join(&b'\n'))
    }

    /// Where a part of the data stands in the stream; `None` where it spans several lines.
    ///
    /// A JSON scalar always lies within one line, since no JSON token may hold a raw line feed.
    pub(super) fn place(&self, part: Range<usize>) -> Option<Range<usize>> {
        let mut start = 0;
        for line in &self.lines {
            let end = start + line.len();
            if part.start >= start && part.end <= end {
                return Some(line.start + part.start - start..line.start + part.end - start);
            }
            start = end + 1;
        }
        None
    }
}

/// The events of a whole stream that carry messages: those of the type `message`, named or not.
///
/// What follows the last blank line is no event: the standard discards it at the end of a stream,
/// and clients do not see it.
pub(super) fn events(stream: &[u8]) -> Events<'_> {
    let start = if stream.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
    Events { stream, next: start }
}

/// See [`events`].
pub(super) struct Events<'s> {
    stream: &'s [u8],
    next: usize,
}

impl<'s> Iterator for Events<'s> {
    type Item = Event<'s>;

    fn next(&mut self) -> Option<Event<'s>> {
        let mut lines = SmallVec::new();
        let mut message = true;
        while let Some(line) = self.line() {
            if line.is_empty() {
                if message && !lines.is_empty() {
                    return Some(Event { stream: self.stream, lines });
                }
                lines.clear();
                message = true;
                continue;
            }
            let (name, value) = self.field(line);
            match &self.stream[name] {
                b"data" => lines.push(value),
                b"event" => message = matches!(&self.stream[value], b"" | b"message"),
                _ => {}
            }
        }
        None
    }
}

impl Events<'_> {
    /// The next line that is ended by LF, CR or CRLF, without its end.
    fn line(&mut self) -> Option<Range<usize>> {
        let start = self.next;
        let rest = &self.stream[start..];
        let len = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r'))?;
        let end_len = if rest[len..].starts_with(b"\r\n") { 2 } else { 1 };
        self.next = start + len + end_len;
        Some(start..start + len)
    }

    /// Splits a line into a field's name and value. A comment has an empty name.
    fn field(&self, line: Range<usize>) -> (Range<usize>, Range<usize>) {
        let text = &self.stream[line.clone()];
        let Some(colon) = text.iter().position(|&byte| byte == b':') else {
            return (line.clone(), line.end..line.end);
        };
        let space = usize::from(text[colon + 1..].starts_with(b" "));
        (line.start..line.start + colon, line.start + colon + 1 + space..line.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(stream: &[u8]) -> Vec<Vec<u8>> {
        events(stream).map(|event| event.data().into_owned()).collect()
    }

    #[test]
    fn the_same_events_whatever_the_line_endings() {
        for end in ["\n", "\r\n", "\r"] {
            let stream = ["data: a", "", "data: b", "data: c", "", "data", "", ""].join(end);
            assert_eq!(data(stream.as_bytes()), [&b"a"[..], b"b\nc", b""], "{end:?}");
        }
    }

    #[test]
    fn mixed_line_endings_count_one_by_one() {
        assert_eq!(data(b"data: a\r\ndata: b\rdata: c\n\r"), [b"a\nb\nc"]);
        assert_eq!(data(b"data: a\r\r\ndata: b\n\n"), [b"a", b"b"]);
    }

    #[test]
    fn one_space_after_the_colon_is_no_part_of_the_value() {
        assert_eq!(data(b"data:a\n\ndata: a\n\ndata:  a \n\n"), [&b"a"[..], b"a", b" a "]);
    }

    #[test]
    fn comments_and_other_fields_are_no_data() {
        let stream = b": comment\nretry: 100\nid: 7\nfoo: x\nDATA: x\n data: x\ndata: a\n:\n\n";
        assert_eq!(data(stream), [b"a"]);
        assert_eq!(data(b"id: 7\n\n: ping\n\n"), Vec::<Vec<u8>>::new());
    }

    #[test]
    fn a_byte_order_mark_counts_only_at_the_start() {
        assert_eq!(data(b"\xEF\xBB\xBFdata: a\n\n"), [b"a"]);
        assert_eq!(data(b"\xEF\xBB\xBF\xEF\xBB\xBFdata: a\n\n"), Vec::<Vec<u8>>::new());
        assert_eq!(data(b"data: a\n\n\xEF\xBB\xBFdata: b\n\n"), [b"a"]);
    }

    #[test]
    fn an_event_without_its_blank_line_is_discarded() {
        for stream in ["data: a", "data: a\n", "data: a\r\n", "data: a\r"] {
            assert_eq!(data(stream.as_bytes()), Vec::<Vec<u8>>::new(), "{stream:?}");
        }
        assert_eq!(data(b"data: a\n\ndata: b\n"), [b"a"]);
    }

    #[test]
    fn only_message_events_count_and_a_type_lasts_for_one_event() {
        let stream =
            b"event: ping\ndata: a\n\ndata: b\n\nevent: message\ndata: c\n\nevent\ndata: d\n\n";
        assert_eq!(data(stream), [b"b", b"c", b"d"]);
    }

    #[test]
    fn a_place_maps_back_through_the_lines() {
        let stream = b": x\ndata: ab\r\ndata:cde\n\n";
        let event = events(stream).next().expect("an event");
        assert_eq!(event.data().as_ref(), b"ab\ncde");
        for (part, text) in [(0..2, &b"ab"[..]), (1..2, b"b"), (3..6, b"cde"), (4..5, b"d")] {
            let place = event.place(part).expect("within a line");
            assert_eq!(&stream[place], text);
        }
        assert_eq!(event.place(1..4), None);
    }

    /// The verdict over a stream for the request with id 1.
    fn verdict(stream: &str) -> Option<Outcome> {
        let id = Document::parse(b"1").expect("an id");
        obstacle(stream.as_bytes(), &RequestId::new(id.root()))
    }

    const ANSWER: &str = "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n";
    const PROGRESS: &str = "data: {\"method\":\"notifications/progress\",\"params\":{}}\n\n";
    const REQUEST: &str = "data: {\"id\":9,\"method\":\"elicitation/create\",\"params\":{}}\n\n";
    const OTHER: &str = "data: {\"id\":2,\"result\":{}}\n\n";

    #[test]
    fn exactly_one_response_and_no_request_can_be_replayed() {
        for parts in [
            &[ANSWER][..],
            &[PROGRESS, PROGRESS, ANSWER],
            &[ANSWER, PROGRESS],
            &["id: 1\ndata:\n\n", ANSWER],
            &["data: keep-alive\n\n", ANSWER],
            &[OTHER, ANSWER],
            &["data: {\"id\":1.0,\ndata: \"error\":{\"code\":-32603}}\n\n"],
            &["data: {\"id\":null,\"error\":{\"code\":-32700}}\n\n"],
            &["event: endpoint\ndata: {\"id\":9,\"method\":\"x\"}\n\n", ANSWER],
        ] {
            assert_eq!(verdict(&parts.concat()), None, "{parts:?}");
        }
    }

    #[test]
    fn no_response_is_unknown_whatever_else_was_there() {
        let cut = ANSWER.trim_end_matches('\n');
        for parts in [
            &[][..],
            &[PROGRESS],
            &[OTHER],
            &[REQUEST],
            &[PROGRESS, cut],
            &["event: other\n", ANSWER],
            &["data: [{\"id\":1,\"result\":{}}]\n\n"],
            &["data: {\"id\":1,\"id\":1,\"result\":{}}\n\n"],
        ] {
            let expected = Some(Outcome::Unknown(UnknownReason::NoResponse));
            assert_eq!(verdict(&parts.concat()), expected, "{parts:?}");
        }
    }

    #[test]
    fn what_a_replay_could_not_repeat_is_not_replayable() {
        let batch = "data: [{\"id\":9,\"method\":\"roots/list\"}]\n\n";
        let unreadable = "data: {\"id\":9,\"method\":\"a\",\"method\":\"b\"}\n\n";
        for (parts, why) in [
            (&[REQUEST, ANSWER][..], NotKept::ServerRequest),
            (&[ANSWER, REQUEST], NotKept::ServerRequest),
            (&[batch, ANSWER], NotKept::ServerRequest),
            (&[ANSWER, ANSWER], NotKept::Unclear),
            (&[unreadable, ANSWER], NotKept::Unclear),
        ] {
            let expected = Some(Outcome::NotReplayable(why));
            assert_eq!(verdict(&parts.concat()), expected, "{parts:?}");
        }
    }
}
