//! Trace context in headers: from the client's, and into the upstream's (W3C Trace Context).
//!
//! Where traces are off, both headers pass as every other header does.

use actix_web::http::header::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};

use crate::observe::trace::{Incoming, Outgoing};

const TRACEPARENT: &str = "traceparent";
const TRACESTATE: &str = "tracestate";

/// What a client's headers say. Two `traceparent` lines are none; several `tracestate` lines are one
/// list.
pub fn incoming(headers: &HeaderMap) -> Incoming {
    let mut parents = headers.get_all(TRACEPARENT);
    let parent = parents.next().filter(|_| parents.next().is_none());
    let states: Vec<&str> =
        headers.get_all(TRACESTATE).filter_map(|value| value.to_str().ok()).collect();
    Incoming {
        traceparent: parent.and_then(|value| value.to_str().ok()).map(str::to_owned),
        tracestate: (!states.is_empty()).then(|| states.join(",")),
    }
}

/// Puts the gateway's own context in the place of the client's.
pub fn pass_on(outgoing: &Outgoing, headers: &mut hyper::HeaderMap) {
    let lines = [(TRACEPARENT, &outgoing.traceparent), (TRACESTATE, &outgoing.tracestate)];
    for (name, text) in lines {
        match HeaderValue::from_str(text) {
            Ok(value) if !text.is_empty() => {
                headers.insert(HeaderName::from_static(name), value);
            }
            _ => {
                headers.remove(name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use actix_web::test::TestRequest;

    #[test]
    fn two_parents_are_none_and_several_states_are_one_list() {
        let request = TestRequest::post()
            .append_header((TRACEPARENT, "a"))
            .append_header((TRACESTATE, "x=1"))
            .append_header((TRACESTATE, "y=2"))
            .to_http_request();
        let read = incoming(request.headers());
        assert_eq!(read.traceparent.as_deref(), Some("a"));
        assert_eq!(read.tracestate.as_deref(), Some("x=1,y=2"));
        let twice = TestRequest::post()
            .append_header((TRACEPARENT, "a"))
            .append_header((TRACEPARENT, "b"))
            .to_http_request();
        assert_eq!(incoming(twice.headers()).traceparent, None);
    }

    #[test]
    fn the_clients_lines_are_replaced_and_an_empty_state_is_left_out() {
        let mut headers = hyper::HeaderMap::new();
        headers.append(TRACEPARENT, HeaderValue::from_static("the client's"));
        headers.append(TRACESTATE, HeaderValue::from_static("x=1"));
        headers.append(TRACESTATE, HeaderValue::from_static("y=2"));
        let outgoing = Outgoing { traceparent: "ours".to_owned(), tracestate: String::new() };
        pass_on(&outgoing, &mut headers);
        assert_eq!(headers.len(), 1);
        assert_eq!(headers[TRACEPARENT], "ours");
    }
}
