//! A field that holds any JSON, such as a schema or a template.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// The text of a JSON value, members in the order of the document. A number is its shortest text: a
/// document's reader keeps no digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Json(pub String);

/// Whole numbers from here on have neighbours that a reader of documents takes for them.
const FIRST_INEXACT: f64 = 9_007_199_254_740_992.0;

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(AnyJson)
    }
}

struct AnyJson;

impl<'de> Visitor<'de> for AnyJson {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Json, E> {
        Ok(Json("null".to_owned()))
    }

    fn visit_none<E: Error>(self) -> Result<Json, E> {
        self.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Json, D::Error> {
        Json::deserialize(from)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Json, E> {
        Ok(Json(value.to_string()))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Json, E> {
        Ok(Json(value.to_string()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Json, E> {
        Ok(Json(value.to_string()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Json, E> {
        let exact = value.fract() != 0.0 || value.abs() < FIRST_INEXACT;
        match serde_json::Number::from_f64(value).filter(|_| exact) {
            Some(number) => Ok(Json(number.to_string())),
            None => Err(E::custom("is a number that cannot be kept as it is written here")),
        }
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Json, E> {
        Ok(Json(quoted(value)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Json, A::Error> {
        let mut text = "[".to_owned();
        while let Some(Json(element)) = elements.next_element()? {
            separate(&mut text);
            text.push_str(&element);
        }
        text.push(']');
        Ok(Json(text))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Json, A::Error> {
        let mut text = "{".to_owned();
        while let Some((name, Json(member))) = members.next_entry::<String, Json>()? {
            separate(&mut text);
            text.push_str(&quoted(&name));
            text.push(':');
            text.push_str(&member);
        }
        text.push('}');
        Ok(Json(text))
    }
}

fn separate(text: &mut String) {
    if text.len() > 1 {
        text.push(',');
    }
}

fn quoted(text: &str) -> String {
    crate::claim::json::JsonText::string(text).as_str().to_owned()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::read::{Format, parse};
    use super::*;

    fn read(format: Format, text: &str) -> Result<String, String> {
        parse::<Json>(Path::new("p"), format, text.as_bytes())
            .map(|json| json.0)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn both_formats_keep_order_and_meaning() {
        let json = r#"{"b":[1,-2,1.5,true,null],"a":{"x\"":"\u0001é"},"c":18446744073709551615}"#;
        let yaml = "b: [1, -2, 1.5, true, null]\na: { 'x\"': \"\\x01é\" }\nc: 18446744073709551615";
        assert_eq!(read(Format::Json, json).as_deref(), Ok(json));
        assert_eq!(read(Format::Yaml, yaml).as_deref(), Ok(json));
    }

    #[test]
    fn a_number_that_would_become_another_one_is_refused() {
        for text in ["[1e300]", "[-9007199254740993.0]"] {
            for format in [Format::Json, Format::Yaml] {
                let error = read(format, text).expect_err(text);
                assert!(error.contains("cannot be kept"), "{text}: {error}");
            }
        }
        assert!(read(Format::Json, "[18446744073709551616]").is_err());
    }
}
