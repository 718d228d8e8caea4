//! What is wrong with a template, and with the arguments that it is filled with.

use crate::claim::JsonError;

/// A mistake of the operator's in a template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub struct TemplateError {
    /// Where in the template, such as `query.limit`; empty for all of it.
    pub place: String,
    /// What is wrong there.
    pub problem: TemplateProblem,
}

/// What can be wrong with a template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateProblem {
    /// A brace without its other one.
    #[error("holds a brace that is no `{{argument}}`: write `{{{{` or `}}}}` for the brace itself")]
    Brace,
    /// A placeholder that the schema does not know.
    #[error("`{{{0}}}` names no property of the input schema")]
    UnknownArgument(String),
    /// An argument that the tool of a route does not take.
    #[error("`{0}` is no property of the tool's input schema")]
    UnknownToolArgument(String),
    /// A method that no tool needs.
    #[error("must be `GET`, `POST`, `PUT`, `PATCH` or `DELETE`")]
    Method,
    /// A path that could be read in two ways.
    #[error(
        "must begin with `/` and hold no query, no empty, `.` or `..` segment, and nothing that \
         needs percent-encoding"
    )]
    Path,
    /// No HTTP header's name.
    #[error("is not a valid HTTP header name")]
    HeaderName,
    /// Two headers whose names differ in case alone.
    #[error("is listed twice")]
    Repeated,
    /// An array, an object or null where a text stands.
    #[error("must be a string, a number or a boolean")]
    NotText,
    /// A list of members that is none.
    #[error("must be an object")]
    NotAnObject,
    /// A body where the method has none.
    #[error("`{0}` has no body: send the arguments in the query")]
    Body(&'static str),
    /// Text that cannot be a value of this kind.
    #[error("is no JSON: {0}")]
    Json(#[from] JsonError),
    /// More of something than a template may have.
    #[error("must not have more than {0}")]
    TooMany(&'static str),
}

impl TemplateProblem {
    /// The same with its place.
    pub(super) fn at(self, place: impl Into<String>) -> TemplateError {
        TemplateError { place: place.into(), problem: self }
    }
}

/// Why arguments do not make a request: the caller has to send others. Names arguments, and never
/// tells their values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// The path needs it.
    #[error("/{0}: the value is needed, as the address is made of it")]
    Missing(String),
    /// An array or an object where a text is needed.
    #[error("/{0}: the value must be a string, a number or a boolean")]
    NotText(String),
    /// It would make the address another one.
    #[error("/{0}: the value must not make a path segment empty, `.` or `..`")]
    Segment(String),
    /// It would break the header.
    #[error("/{0}: the value must be printable ASCII characters, as it is sent in a header")]
    Header(String),
    /// The request would be longer than the gateway sends.
    #[error("arguments: what is made of them is longer than {0} bytes")]
    TooLong(usize),
    /// Nested deeper than JSON is read here.
    #[error("arguments: what is made of them is nested too deep")]
    TooDeep,
    /// What a capability's arguments become is nothing that the tool takes.
    #[error("arguments: the chosen route does not take them: {0}")]
    Route(super::ArgumentError),
}
