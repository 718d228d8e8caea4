//! From a capability's arguments to those of the tool that it leads to.

use super::InputSchema;
use super::body::Node;
use super::error::{RenderError, TemplateError, TemplateProblem};
use super::template::MAX_BODY_BYTES;
use super::text::Arguments;
use crate::claim::json::JsonText;
use crate::claim::{Document, Kind, Value};

/// How the arguments map, and what the tool asks of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArgumentMap {
    /// `None` where they are the same.
    template: Option<Node>,
    tool: InputSchema,
}

impl ArgumentMap {
    /// Arguments that stay as they are.
    pub fn same(tool: InputSchema) -> Self {
        Self { template: None, tool }
    }

    /// Reads a map: a JSON object with the tool's arguments, made of the capability's.
    ///
    /// # Errors
    ///
    /// The first mistake, with its place: no object, a name that the tool's schema does not list, a
    /// placeholder that the capability's does not.
    pub fn parse(
        text: &str,
        capability: &InputSchema,
        tool: InputSchema,
    ) -> Result<Self, TemplateError> {
        const PLACE: &str = "arguments";
        let wrong = |problem: TemplateProblem| problem.at(PLACE);
        let document = Document::parse(text.as_bytes()).map_err(|error| wrong(error.into()))?;
        let root = document.root();
        if root.kind() != Kind::Object {
            return Err(wrong(TemplateProblem::NotAnObject));
        }
        if let Some((name, _)) = root.members().find(|(name, _)| !tool.lists(name)) {
            let problem = TemplateProblem::UnknownToolArgument(name.into_owned());
            return Err(problem.at(PLACE));
        }
        Ok(Self { template: Some(Node::read(root, PLACE, capability)?), tool })
    }

    /// The tool's arguments, as JSON text that fits the tool's schema.
    ///
    /// # Errors
    ///
    /// [`RenderError`]: the caller has to send other arguments.
    pub fn render(
        &self,
        arguments: Option<Value<'_, '_>>,
    ) -> Result<JsonText<'static>, RenderError> {
        let mut out = Vec::new();
        let there = match (&self.template, arguments) {
            (Some(template), _) => {
                template.write(Arguments(arguments), MAX_BODY_BYTES, &mut out)?
            }
            (None, Some(arguments)) => {
                out.extend_from_slice(arguments.raw().as_bytes());
                true
            }
            (None, None) => false,
        };
        if !there {
            out = b"{}".to_vec();
        }
        // An argument nested as deep as it may be can become one too deep inside the template.
        let text = JsonText::from_vec(out).map_err(|_| RenderError::TooDeep)?;
        let document =
            Document::parse(text.as_str().as_bytes()).map_err(|_| RenderError::TooDeep)?;
        self.tool.check(Some(document.root())).map_err(RenderError::Route)?;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPABILITY: &str =
        r#"{"type":"object","properties":{"cents":{"type":"integer"},"note":{}}}"#;
    const TOOL: &str = r#"{"type":"object","required":["amount"],
        "properties":{"amount":{"type":"integer","maximum":100},"text":{"type":"string"}}}"#;

    fn map(text: &str) -> Result<ArgumentMap, TemplateError> {
        let schema = |text| InputSchema::parse(text).expect("a schema");
        ArgumentMap::parse(text, &schema(CAPABILITY), schema(TOOL))
    }

    fn mapped(map: &ArgumentMap, arguments: &str) -> Result<String, RenderError> {
        let document = Document::parse(arguments.as_bytes()).expect("JSON");
        map.render(Some(document.root())).map(|text| text.as_str().to_owned())
    }

    #[test]
    fn arguments_become_those_of_the_tool() {
        let map = map(r#"{"amount":"{cents}","text":"for {note}"}"#).expect("a map");
        let both = mapped(&map, r#"{"cents":7,"note":"x"}"#);
        assert_eq!(both.as_deref(), Ok(r#"{"amount":7,"text":"for x"}"#));
        assert_eq!(mapped(&map, r#"{"cents":7}"#).as_deref(), Ok(r#"{"amount":7}"#));
    }

    #[test]
    fn what_the_tool_does_not_take_is_refused() {
        let map = map(r#"{"amount":"{cents}"}"#).expect("a map");
        for arguments in ["{}", r#"{"cents":101}"#] {
            let refused = mapped(&map, arguments);
            assert!(matches!(refused, Err(RenderError::Route(_))), "{arguments}: {refused:?}");
        }
        let same = ArgumentMap::same(InputSchema::parse(TOOL).expect("a schema"));
        assert_eq!(mapped(&same, r#"{"amount": 7}"#).as_deref(), Ok(r#"{"amount": 7}"#));
        assert!(mapped(&same, "{}").is_err() && same.render(None).is_err());
    }

    #[test]
    fn a_map_names_what_both_schemas_list() {
        let problems = [
            ("[]", "arguments", TemplateProblem::NotAnObject),
            (r#"{"sum":1}"#, "arguments", TemplateProblem::UnknownToolArgument("sum".to_owned())),
            (
                r#"{"text":["{amount}"]}"#,
                "arguments.text[0]",
                TemplateProblem::UnknownArgument("amount".to_owned()),
            ),
        ];
        for (text, place, problem) in problems {
            assert_eq!(map(text), Err(problem.at(place)), "{text}");
        }
    }
}
