//! The canonical form of a JSON value (CONTRACT section 3, "Hashes"): members sorted by the UTF-8
//! bytes of their unescaped names, no white space, numbers as their literals, strings with the
//! shortest escapes, no Unicode normalisation.

use std::mem;

use super::json::{Kind, Named, Value, end_of_plain_run};

/// The canonical form; never longer than the source text of the value.
pub fn canonical(value: Value<'_, '_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.raw().len());
    write_canonical(value, &mut out);
    out
}

/// Appends the canonical form of `value` to `out`.
pub fn write_canonical(value: Value<'_, '_>, out: &mut Vec<u8>) {
    Writer::new(out).value(value);
}

/// Writes canonical forms. Recurses no deeper than [`super::json::MAX_DEPTH`].
pub(super) struct Writer<'o, 'd, 'a> {
    out: &'o mut Vec<u8>,
    /// The members of the objects that are being written, the innermost object's last.
    members: Vec<Named<'a, Value<'d, 'a>>>,
}

impl<'o, 'd, 'a> Writer<'o, 'd, 'a> {
    pub fn new(out: &'o mut Vec<u8>) -> Self {
        Self { out, members: Vec::new() }
    }

    pub fn value(&mut self, value: Value<'d, 'a>) {
        match (value.kind(), value.as_str()) {
            (Kind::Object, _) => {
                self.object(value, |_, _| true, |writer, _, value| writer.value(value));
            }
            (Kind::Array, _) => self.array(value),
            (_, Some(content)) => self.string(&content),
            (_, None) => self.out.extend_from_slice(value.raw().as_bytes()),
        }
    }

    /// Writes those members of an object that `keep` accepts, their values by `write`.
    pub fn object(
        &mut self,
        object: Value<'d, 'a>,
        keep: impl Fn(&str, Value<'d, 'a>) -> bool,
        write: impl Fn(&mut Self, &str, Value<'d, 'a>),
    ) {
        let first = self.members.len();
        let kept = object.members().filter(|(name, value)| keep(name, *value));
        self.members.extend(kept.map(|(name, value)| Named::new(name, value)));
        self.members[first..].sort_unstable_by(Named::order);
        self.out.push(b'{');
        for index in first..self.members.len() {
            if index > first {
                self.out.push(b',');
            }
            let value = self.members[index].item;
            let name = mem::take(&mut self.members[index].name);
            self.string(&name);
            self.out.push(b':');
            write(self, &name, value);
        }
        self.out.push(b'}');
        self.members.truncate(first);
    }

    fn array(&mut self, array: Value<'d, 'a>) {
        self.out.push(b'[');
        for (index, element) in array.elements().enumerate() {
            if index > 0 {
                self.out.push(b',');
            }
            self.value(element);
        }
        self.out.push(b']');
    }

    pub fn string(&mut self, content: &str) {
        let content = content.as_bytes();
        self.out.push(b'"');
        let mut done = 0;
        loop {
            let run = end_of_plain_run(content, done);
            self.out.extend_from_slice(&content[done..run]);
            let Some(byte) = content.get(run) else {
                break;
            };
            self.escape(*byte);
            done = run + 1;
        }
        self.out.push(b'"');
    }

    fn escape(&mut self, byte: u8) {
        let short = match byte {
            b'"' | b'\\' => byte,
            0x08 => b'b',
            0x0c => b'f',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            _ => {
                return self.out.extend_from_slice(format!("\\u{byte:04x}").as_bytes());
            }
        };
        self.out.extend_from_slice(&[b'\\', short]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::json::{Document, MAX_DEPTH};

    #[track_caller]
    fn form(text: &str) -> String {
        let document = Document::parse(text.as_bytes()).expect("the text is JSON");
        let canonical = canonical(document.root());
        assert!(canonical.len() <= text.len(), "longer than its source: {text}");
        String::from_utf8(canonical).expect("the form is UTF-8")
    }

    #[test]
    fn every_character_below_a_space_has_its_shortest_escape() {
        for code in 0..0x20u8 {
            let short = match code {
                0x08 => r"\b".to_owned(),
                0x09 => r"\t".to_owned(),
                0x0a => r"\n".to_owned(),
                0x0c => r"\f".to_owned(),
                0x0d => r"\r".to_owned(),
                _ => format!(r"\u{code:04x}"),
            };
            assert_eq!(form(&format!(r#""\u{code:04X}""#)), format!(r#""{short}""#));
        }
    }

    #[test]
    fn a_character_needs_no_escape_from_a_space_up() {
        for code in (0x20..0x3000).filter(|code| ![0x22, 0x5c].contains(code)) {
            let character = char::from_u32(code).expect("no surrogate");
            assert_eq!(form(&format!(r#""\u{code:04x}""#)), format!(r#""{character}""#));
        }
        assert_eq!(form(r#""\u0022\u005c\/""#), r#""\"\\/""#);
    }

    #[test]
    fn members_are_sorted_by_what_their_names_mean() {
        let text = r#"{"same-first-8-b":1,"\u0073ame-first-8-a":2,"s":3,"\u0000":4,"":5,"\ud83d\ude00":6,"\uffff":7,"same-first-8":8}"#;
        let sorted = "{\"\":5,\"\\u0000\":4,\"s\":3,\"same-first-8\":8,\"same-first-8-a\":2,\"same-first-8-b\":1,\"\u{ffff}\":7,\"😀\":6}";
        assert_eq!(form(text), sorted);
    }

    #[test]
    fn the_members_of_each_level_keep_to_themselves() {
        let text = r#"{"c":{"z":{"q":1,"p":{}},"y":2},"b":[{"x":1,"w":2},{}],"a":{"v":{}}}"#;
        let sorted = r#"{"a":{"v":{}},"b":[{"w":2,"x":1},{}],"c":{"y":2,"z":{"p":{},"q":1}}}"#;
        assert_eq!(form(text), sorted);
    }

    #[test]
    fn the_deepest_document_is_written() {
        let open = r#"{"a":["#.repeat(MAX_DEPTH / 2);
        let text = open + &"]}".repeat(MAX_DEPTH / 2);
        assert_eq!(form(&text), text);
    }

    #[test]
    fn writing_appends() {
        let document = Document::parse(b"[ 1 ]").expect("the text is JSON");
        let mut out = b"before ".to_vec();
        write_canonical(document.root(), &mut out);
        assert_eq!(out, b"before [1]");
    }
}
