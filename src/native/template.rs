//! What is sent to a vendor: a tool's `request`, and what its arguments make of it.

use bytes::Bytes;
use hyper::Method;
use hyper::header::{HeaderName, HeaderValue};
use url::form_urlencoded;

use super::InputSchema;
use super::body::{Node, Texts, texts};
use super::error::{RenderError, TemplateError, TemplateProblem};
use super::path::Path;
use super::text::{Arguments, Text};
use crate::claim::json::PutError;
use crate::claim::{Document, Pointer, Value};

/// The most members of a query, of a form and of a list of headers.
pub const MAX_FIELDS: usize = 64;
/// The most bytes of path and query together.
pub const MAX_TARGET_BYTES: usize = 16 * 1024;
/// The most bytes of one header's value.
pub const MAX_HEADER_BYTES: usize = 8 * 1024;
/// The most bytes of a body: four times what a client may send by default.
pub const MAX_BODY_BYTES: usize = 4 * 1024 * 1024;

const FIELDS: (usize, &str) = (MAX_FIELDS, "64 members");

/// A tool's `request` as its document has it; JSON in the parts that are more than a text.
#[derive(Debug, Clone, Copy)]
pub struct RequestSource<'s> {
    /// The HTTP method.
    pub method: &'s str,
    /// The path, with its placeholders.
    pub path: &'s str,
    /// An object of texts.
    pub query: Option<&'s str>,
    /// An object of texts.
    pub headers: Option<&'s str>,
    /// The body, if the request has one.
    pub body: Option<BodySource<'s>>,
}

/// The body of a [`RequestSource`].
#[derive(Debug, Clone, Copy)]
pub enum BodySource<'s> {
    /// Any JSON value.
    Json(&'s str),
    /// An object of texts.
    Form(&'s str),
}

/// A tool's `request`, every placeholder of which is a property of the tool's input schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestTemplate {
    method: Method,
    path: Path,
    query: Texts,
    headers: Box<[(HeaderName, Text)]>,
    body: Body,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Body {
    None,
    Json(Node),
    Form(Texts),
}

/// A request that is ready but for its address, credential and key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VendorRequest {
    /// The method.
    pub method: Method,
    /// Path and query below the base URL; begins with `/`.
    pub path_and_query: String,
    /// The template's own headers.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The media type of the body, if there is one.
    pub content_type: Option<&'static str>,
    /// The body.
    pub body: Bytes,
}

impl RequestTemplate {
    /// Reads a template against the schema of its arguments.
    ///
    /// # Errors
    ///
    /// The first mistake, with its place.
    pub fn parse(source: RequestSource<'_>, schema: &InputSchema) -> Result<Self, TemplateError> {
        let method = method(source.method).ok_or(TemplateProblem::Method.at("method"))?;
        let path = Path::parse(source.path, schema).map_err(|problem| problem.at("path"))?;
        let query = fields(source.query, "query", schema)?;
        let headers = headers(source.headers, schema)?;
        let body = match source.body {
            Some(_) if method == Method::GET => return Err(TemplateProblem::Body("GET").at("body")),
            Some(BodySource::Json(text)) => {
                let place = "body.json";
                let document = read(text, place)?;
                Body::Json(Node::read(document.root(), place, schema)?)
            }
            Some(BodySource::Form(text)) => Body::Form(fields(Some(text), "body.form", schema)?),
            None => Body::None,
        };
        Ok(Self { method, path, query, headers, body })
    }

    /// The request that these arguments make; absent ones are none. They have been checked against
    /// the tool's schema.
    ///
    /// # Errors
    ///
    /// [`RenderError`]: the caller has to send other arguments.
    pub fn render(&self, arguments: Option<Value<'_, '_>>) -> Result<VendorRequest, RenderError> {
        let arguments = Arguments(arguments);
        let mut path_and_query = self.path.render(arguments)?;
        let query = urlencoded(&self.query, arguments, MAX_TARGET_BYTES)?;
        if !query.is_empty() {
            path_and_query.push('?');
            path_and_query.push_str(&query);
        }
        if path_and_query.len() > MAX_TARGET_BYTES {
            return Err(RenderError::TooLong(MAX_TARGET_BYTES));
        }
        let (content_type, body) = self.body.render(arguments)?;
        Ok(VendorRequest {
            method: self.method.clone(),
            path_and_query,
            headers: self.render_headers(arguments)?,
            content_type,
            body,
        })
    }

    /// The HTTP method.
    pub fn method(&self) -> &Method {
        &self.method
    }

    /// The path with its placeholders.
    pub fn path(&self) -> &str {
        self.path.template()
    }

    /// The headers that it sets.
    pub fn header_names(&self) -> impl Iterator<Item = &HeaderName> {
        self.headers.iter().map(|(name, _)| name)
    }

    /// Whether a key can be put at this place of the body, as far as that can be told before there
    /// are arguments.
    ///
    /// # Errors
    ///
    /// What is in the way: a body that is no JSON object counts as a scalar.
    pub fn takes_key(&self, pointer: &Pointer) -> Result<(), PutError> {
        match &self.body {
            Body::Json(node) => node.takes(pointer),
            Body::Form(_) | Body::None => Err(PutError::ThroughScalar),
        }
    }

    fn render_headers(
        &self,
        arguments: Arguments<'_, '_>,
    ) -> Result<Vec<(HeaderName, HeaderValue)>, RenderError> {
        let mut headers = Vec::with_capacity(self.headers.len());
        for (name, text) in &self.headers {
            let Some(value) = text.render(arguments, MAX_HEADER_BYTES)? else {
                continue;
            };
            let wrong = || RenderError::Header(text.arguments().collect::<Vec<_>>().join(", /"));
            let printable = value.bytes().all(|byte| matches!(byte, b' '..=b'~'));
            let value = HeaderValue::try_from(value).map_err(|_| wrong())?;
            if !printable {
                return Err(wrong());
            }
            headers.push((name.clone(), value));
        }
        Ok(headers)
    }
}

impl Body {
    fn render(
        &self,
        arguments: Arguments<'_, '_>,
    ) -> Result<(Option<&'static str>, Bytes), RenderError> {
        match self {
            Self::None => Ok((None, Bytes::new())),
            Self::Json(node) => {
                let mut out = Vec::new();
                let there = node.write(arguments, MAX_BODY_BYTES, &mut out)?;
                Ok(match there {
                    true => (Some("application/json"), out.into()),
                    false => (None, Bytes::new()),
                })
            }
            Self::Form(fields) => {
                let body = urlencoded(fields, arguments, MAX_BODY_BYTES)?;
                Ok((Some("application/x-www-form-urlencoded"), body.into()))
            }
        }
    }
}

fn method(text: &str) -> Option<Method> {
    let known = [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
    known.into_iter().find(|method| method.as_str() == text)
}

fn read<'s>(text: &'s str, place: &str) -> Result<Document<'s>, TemplateError> {
    Document::parse(text.as_bytes()).map_err(|error| TemplateProblem::from(error).at(place))
}

fn fields(source: Option<&str>, place: &str, schema: &InputSchema) -> Result<Texts, TemplateError> {
    match source {
        Some(text) => texts(read(text, place)?.root(), place, FIELDS, schema),
        None => Ok(Box::default()),
    }
}

fn headers(
    source: Option<&str>,
    schema: &InputSchema,
) -> Result<Box<[(HeaderName, Text)]>, TemplateError> {
    let mut headers: Vec<(HeaderName, Text)> = Vec::new();
    for (name, text) in fields(source, "headers", schema)? {
        let wrong = |problem: TemplateProblem| problem.at(format!("headers.{name}"));
        let parsed = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| wrong(TemplateProblem::HeaderName))?;
        if headers.iter().any(|(other, _)| *other == parsed) {
            return Err(wrong(TemplateProblem::Repeated));
        }
        headers.push((parsed, text));
    }
    Ok(headers.into())
}

/// Names and values of `application/x-www-form-urlencoded`; absent ones are left out.
fn urlencoded(
    fields: &[(Box<str>, Text)],
    arguments: Arguments<'_, '_>,
    limit: usize,
) -> Result<String, RenderError> {
    let mut out = form_urlencoded::Serializer::new(String::new());
    let mut bytes = 0usize;
    for (name, text) in fields {
        if let Some(value) = text.render(arguments, limit)? {
            bytes += value.len();
            if bytes > limit {
                return Err(RenderError::TooLong(limit));
            }
            out.append_pair(name, &value);
        }
    }
    Ok(out.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMA: &str = r#"{"type":"object","properties":{"id":{},"n":{},"s":{},"o":{}}}"#;

    const SOURCE: RequestSource<'static> = RequestSource {
        method: "POST",
        path: "/v1/charges/{id}",
        query: Some(r#"{"expand":"all","n":"{n}","page":2,"dry":false}"#),
        headers: Some(r#"{"X-Reason":"for {s}","X-N":"{n}"}"#),
        body: Some(BodySource::Json(r#"{"amount":"{n}","note":"{s}","fixed":1.10}"#)),
    };

    fn template(source: RequestSource<'_>) -> Result<RequestTemplate, TemplateError> {
        RequestTemplate::parse(source, &InputSchema::parse(SCHEMA).expect("a schema"))
    }

    fn rendered(source: RequestSource<'_>, arguments: &str) -> Result<VendorRequest, RenderError> {
        let document = Document::parse(arguments.as_bytes()).expect("JSON");
        template(source).expect("a template").render(Some(document.root()))
    }

    #[test]
    fn arguments_reach_every_part_of_a_request() {
        let arguments = r#"{"id":"c/1","n":18446744073709551617.10,"s":"a&b é=\"","o":{}}"#;
        let request = rendered(SOURCE, r#"{"id":"c/1","n":18446744073709551617.10,"s":"a b"}"#)
            .expect("a request");
        assert_eq!(request.method, Method::POST);
        assert_eq!(
            request.path_and_query,
            "/v1/charges/c%2F1?expand=all&n=18446744073709551617.10&page=2&dry=false"
        );
        let headers: Vec<_> =
            request.headers.iter().map(|(n, v)| (n.as_str(), v.as_bytes())).collect();
        let number = b"18446744073709551617.10".as_slice();
        assert_eq!(headers, [("x-reason", b"for a b".as_slice()), ("x-n", number)]);
        assert_eq!(request.content_type, Some("application/json"));
        let body = r#"{"amount":18446744073709551617.10,"note":"a b","fixed":1.10}"#;
        assert_eq!(request.body, body);

        let form = Some(BodySource::Form(r#"{"amount[value]":"{n}","note":"{s}","none":"{o}"}"#));
        let source = RequestSource { body: form, headers: None, ..SOURCE };
        assert_eq!(rendered(source, arguments), Err(RenderError::NotText("o".to_owned())));
        let form = Some(BodySource::Form(r#"{"amount[value]":"{n}","note":"{s}"}"#));
        let request =
            rendered(RequestSource { body: form, ..source }, arguments).expect("a request");
        assert_eq!(request.content_type, Some("application/x-www-form-urlencoded"));
        let body = "amount%5Bvalue%5D=18446744073709551617.10&note=a%26b+%C3%A9%3D%22";
        assert_eq!(request.body, body);
    }

    #[test]
    fn absent_arguments_are_left_out() {
        let request = rendered(SOURCE, r#"{"id":1}"#).expect("a request");
        assert_eq!(request.path_and_query, "/v1/charges/1?expand=all&page=2&dry=false");
        assert_eq!(request.headers, []);
        assert_eq!(request.body, r#"{"fixed":1.10}"#);
        let whole = RequestSource { body: Some(BodySource::Json(r#""{o}""#)), ..SOURCE };
        let request = rendered(whole, r#"{"id":1}"#).expect("a request");
        assert_eq!((request.content_type, request.body.len()), (None, 0));
    }

    #[test]
    fn a_header_gains_no_line_and_no_byte_above_ascii() {
        for value in ["a\r\nX-Evil: 1", "a\nb", "\u{0}", "\t", "é", "\u{7f}"] {
            let arguments = serde_json::json!({ "id": 1, "s": value }).to_string();
            let refused = Err(RenderError::Header("s".to_owned()));
            assert_eq!(rendered(SOURCE, &arguments), refused, "{value:?}");
        }
    }

    #[test]
    fn what_is_made_of_the_arguments_has_bounds() {
        let long = |bytes: usize| format!(r#"{{"id":1,"n":"{}"}}"#, "x".repeat(bytes));
        let no_headers = RequestSource { headers: None, ..SOURCE };
        assert!(rendered(no_headers, &long(MAX_TARGET_BYTES - 100)).is_ok());
        let over = Err(RenderError::TooLong(MAX_TARGET_BYTES));
        assert_eq!(rendered(no_headers, &long(MAX_TARGET_BYTES - 10)), over);
        assert_eq!(rendered(SOURCE, &long(MAX_HEADER_BYTES)).map(|_| ()), Ok(()));
        let over = Err(RenderError::TooLong(MAX_HEADER_BYTES));
        assert_eq!(rendered(SOURCE, &long(MAX_HEADER_BYTES + 1)), over);
        let body = Some(BodySource::Json(r#"["{n}","{n}"]"#));
        let source = RequestSource { query: None, headers: None, body, ..SOURCE };
        assert!(rendered(source, &long(MAX_BODY_BYTES / 2 - 8)).is_ok());
        let over = Err(RenderError::TooLong(MAX_BODY_BYTES));
        assert_eq!(rendered(source, &long(MAX_BODY_BYTES / 2)), over);
    }

    #[test]
    fn a_mistake_is_told_with_its_place() {
        let unknown = || TemplateProblem::UnknownArgument("x".to_owned());
        let cases = [
            (RequestSource { method: "post", ..SOURCE }, "method", TemplateProblem::Method),
            (RequestSource { method: "GET", ..SOURCE }, "body", TemplateProblem::Body("GET")),
            (RequestSource { path: "/{x}", ..SOURCE }, "path", unknown()),
            (RequestSource { query: Some(r#"{"a":"{x}"}"#), ..SOURCE }, "query.a", unknown()),
            (
                RequestSource { query: Some(r#"{"a":[]}"#), ..SOURCE },
                "query.a",
                TemplateProblem::NotText,
            ),
            (RequestSource { query: Some("[]"), ..SOURCE }, "query", TemplateProblem::NotAnObject),
            (
                RequestSource { headers: Some(r#"{"a b":1}"#), ..SOURCE },
                "headers.a b",
                TemplateProblem::HeaderName,
            ),
            (
                RequestSource { headers: Some(r#"{"a":1,"A":1}"#), ..SOURCE },
                "headers.A",
                TemplateProblem::Repeated,
            ),
            (
                RequestSource { body: Some(BodySource::Json(r#"{"a":"{x}"}"#)), ..SOURCE },
                "body.json.a",
                unknown(),
            ),
            (
                RequestSource { body: Some(BodySource::Form(r#"{"a":null}"#)), ..SOURCE },
                "body.form.a",
                TemplateProblem::NotText,
            ),
        ];
        for (source, place, problem) in cases {
            assert_eq!(template(source), Err(problem.at(place)));
        }
        let fields: Vec<String> = (0..=MAX_FIELDS).map(|at| format!(r#""f{at}":1"#)).collect();
        let query = format!("{{{}}}", fields.join(","));
        let error =
            template(RequestSource { query: Some(&query), ..SOURCE }).expect_err("too many");
        assert_eq!(error, TemplateProblem::TooMany("64 members").at("query"));
    }

    #[test]
    fn only_a_json_body_takes_a_key() {
        let pointer = Pointer::parse("/token").expect("a pointer");
        assert_eq!(template(SOURCE).expect("one").takes_key(&pointer), Ok(()));
        for body in [None, Some(BodySource::Form("{}"))] {
            let template = template(RequestSource { body, ..SOURCE }).expect("one");
            assert_eq!(template.takes_key(&pointer), Err(PutError::ThroughScalar));
        }
    }
}
