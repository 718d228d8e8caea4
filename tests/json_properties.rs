//! The strict reader and the canonical form against two independent judges: `serde_json`, and a
//! model of JSON values compared the naive way.

use std::collections::BTreeMap;

use onceward::claim::json::{JsonText, PutError, put, set_in_result_meta};
use onceward::claim::{Document, JsonError, Kind, Pointer, Value, canonical};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

/// A JSON value the naive way. Numbers are their literals, names are unique and sorted by code
/// point, as the canonical form demands.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Model {
    Null,
    Bool(bool),
    Number(String),
    Text(String),
    Array(Vec<Model>),
    Object(BTreeMap<String, Model>),
}

/// Choices for everything that a writer of JSON is free in; read round and round.
#[derive(Debug, Clone)]
struct Style(Vec<u8>);

struct Render<'s> {
    style: &'s Style,
    used: usize,
    out: String,
}

impl Render<'_> {
    fn text(model: &Model, style: &Style) -> String {
        let mut render = Render { style, used: 0, out: String::new() };
        render.value(model);
        render.out
    }

    fn choose(&mut self, options: usize) -> usize {
        let choice = self.style.0[self.used % self.style.0.len()];
        self.used += 1;
        usize::from(choice) % options
    }

    fn space(&mut self) {
        let space = ["", "", "", " ", "\n", "\t", "\r\n", "  "][self.choose(8)];
        self.out.push_str(space);
    }

    fn value(&mut self, model: &Model) {
        self.space();
        match model {
            Model::Null => self.out.push_str("null"),
            Model::Bool(value) => self.out.push_str(if *value { "true" } else { "false" }),
            Model::Number(literal) => self.out.push_str(literal),
            Model::Text(text) => self.string(text),
            Model::Array(elements) => {
                self.list('[', ']', elements, |render, element| render.value(element));
            }
            Model::Object(members) => {
                let mut members: Vec<_> = members.iter().collect();
                let turn = self.choose(members.len().max(1));
                members.rotate_left(turn);
                self.list('{', '}', &members, |render, (name, value)| {
                    render.space();
                    render.string(name);
                    render.space();
                    render.out.push(':');
                    render.value(value);
                });
            }
        }
        self.space();
    }

    fn list<T>(&mut self, open: char, close: char, items: &[T], each: impl Fn(&mut Self, &T)) {
        self.out.push(open);
        self.space();
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                self.out.push(',');
            }
            each(self, item);
        }
        self.out.push(close);
    }

    fn string(&mut self, text: &str) {
        self.out.push('"');
        for character in text.chars() {
            let must = character < ' ' || character == '"' || character == '\\';
            if must || self.choose(4) == 0 {
                let mut units = [0; 2];
                for unit in character.encode_utf16(&mut units) {
                    let upper = self.choose(2) == 0;
                    let digits = if upper { format!("{unit:04X}") } else { format!("{unit:04x}") };
                    self.out.push_str("\\u");
                    self.out.push_str(&digits);
                }
            } else {
                self.out.push(character);
            }
        }
        self.out.push('"');
    }
}

fn number() -> impl Strategy<Value = String> {
    prop_oneof![
        "-?(0|[1-9][0-9]{0,3})",
        "-?(0|[1-9][0-9]{0,25})(\\.[0-9]{1,20})?([eE][+-]?[0-9]{1,2})?",
    ]
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[ab]{0,2}", "[a-z\"/\\\\\u{0}-\u{1f}é😀\u{2028}\u{fb33}]{0,12}", any::<String>()]
}

fn model() -> impl Strategy<Value = Model> {
    let leaf = prop_oneof![
        Just(Model::Null),
        any::<bool>().prop_map(Model::Bool),
        number().prop_map(Model::Number),
        text().prop_map(Model::Text),
    ];
    // Enough members for their names to be sorted instead of compared pair by pair.
    let wide = proptest::collection::btree_map(text(), leaf.clone(), 17..24);
    let bottom = prop_oneof![9 => leaf, 1 => wide.prop_map(Model::Object)];
    bottom.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Model::Array),
            proptest::collection::btree_map(text(), inner, 0..5).prop_map(Model::Object),
        ]
    })
}

/// Few enough values that two independent ones are often the same.
fn tiny_model() -> impl Strategy<Value = Model> {
    let leaf = prop_oneof![
        Just(Model::Null),
        prop_oneof!["1", "1\\.0"].prop_map(Model::Number),
        "[ab]?".prop_map(Model::Text),
    ];
    leaf.prop_recursive(2, 4, 2, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..2).prop_map(Model::Array),
            proptest::collection::btree_map("[ab]?", inner, 0..2).prop_map(Model::Object),
        ]
    })
}

fn tiny_object() -> impl Strategy<Value = Model> {
    proptest::collection::btree_map("[ab]?", tiny_model(), 0..4).prop_map(Model::Object)
}

/// A reply whose `result` and `_meta` are often objects.
fn tiny_reply() -> impl Strategy<Value = Model> {
    let with = |name: &'static str, inner: BoxedStrategy<Model>| {
        (tiny_object(), proptest::option::weighted(0.8, inner)).prop_map(move |(object, inner)| {
            let Model::Object(mut members) = object else {
                return object;
            };
            members.extend(inner.map(|inner| (name.to_owned(), inner)));
            Model::Object(members)
        })
    };
    let some = prop_oneof![4 => tiny_object(), 1 => tiny_model()];
    let result = prop_oneof![6 => with("_meta", some.boxed()), 1 => tiny_model()];
    with("result", result.boxed())
}

/// The naive way to set members of `result._meta`; whether they can be.
fn naive_set(reply: &mut Model, values: &BTreeMap<String, String>) -> bool {
    let Model::Object(members) = reply else {
        return false;
    };
    let Some(Model::Object(result)) = members.get_mut("result") else {
        return false;
    };
    let meta = result.entry("_meta".to_owned()).or_insert(Model::Object(BTreeMap::new()));
    let Model::Object(meta) = meta else {
        return false;
    };
    meta.extend(values.iter().map(|(name, value)| (name.clone(), Model::Text(value.clone()))));
    true
}

fn style() -> impl Strategy<Value = Style> {
    proptest::collection::vec(any::<u8>(), 1..64).prop_map(Style)
}

/// Text that is nearly JSON: well-formed, then cut, spliced and overwritten.
fn nearly_json() -> impl Strategy<Value = Vec<u8>> {
    let fragment = prop_oneof![
        "[\\[\\]{}:,\" \\\\]",
        "(0|-|1\\.|e5|E\\+|00|true|nul|\\\\u|d83d|\\\\ude00|\"a\":1,|\"a\":1)",
    ];
    let edit = (any::<prop::sample::Index>(), 0..4usize, fragment);
    (model(), style(), proptest::collection::vec(edit, 0..3)).prop_map(|(model, style, edits)| {
        let mut bytes = Render::text(&model, &style).into_bytes();
        for (at, removed, inserted) in edits {
            let at = at.index(bytes.len() + 1);
            let end = (at + removed).min(bytes.len());
            bytes.splice(at..end, inserted.into_bytes());
        }
        bytes
    })
}

fn model_of(value: Value<'_, '_>) -> Model {
    match value.kind() {
        Kind::Null => Model::Null,
        Kind::Bool => Model::Bool(value.raw() == "true"),
        Kind::Number => Model::Number(value.raw().to_owned()),
        Kind::String => Model::Text(value.as_str().expect("a string").into_owned()),
        Kind::Array => Model::Array(value.elements().map(model_of).collect()),
        Kind::Object => Model::Object(
            value.members().map(|(name, value)| (name.into_owned(), model_of(value))).collect(),
        ),
    }
}

/// Both ways: what is accepted here `serde_json` accepts, and what it accepts is accepted here or
/// refused for one of the reasons that it does not know.
fn agrees_with_serde_json(bytes: &[u8]) -> Result<(), TestCaseError> {
    let ours = Document::parse(bytes).map(|document| canonical(document.root()));
    let theirs = serde_json::from_slice::<serde_json::Value>(bytes);
    match (ours, theirs) {
        (Ok(form), Ok(value)) => {
            let again = serde_json::from_slice::<serde_json::Value>(&form);
            prop_assert_eq!(again.ok(), Some(value), "the canonical form means something else");
        }
        (Err(_), Err(_)) => {}
        (Ok(_), Err(error)) => {
            // It holds numbers as floats and counts nesting one level short.
            let reason = error.to_string();
            let known = ["number out of range", "recursion limit exceeded"];
            prop_assert!(known.iter().any(|known| reason.contains(known)), "{}", reason);
        }
        (Err(error), Ok(_)) => {
            prop_assert!(matches!(error, JsonError::DuplicateName(_)), "{:?}", error);
        }
    }
    Ok(())
}

/// The naive way to put a member, and why it cannot be put.
fn naive_put(model: &mut Model, names: &[String], value: &Model) -> Result<(), PutError> {
    let Some((name, inside)) = names.split_first() else {
        return if model == value { Ok(()) } else { Err(PutError::Taken) };
    };
    match model {
        Model::Object(members) => match members.get_mut(name) {
            Some(member) => naive_put(member, inside, value),
            None => {
                let nest =
                    |value, name: &String| Model::Object(BTreeMap::from([(name.clone(), value)]));
                let member = inside.iter().rev().fold(value.clone(), nest);
                members.insert(name.clone(), member);
                Ok(())
            }
        },
        Model::Array(_) => Err(PutError::IntoArray),
        _ => Err(PutError::ThroughScalar),
    }
}

fn pointer_of(names: &[String]) -> Pointer {
    let escape = |name: &String| format!("/{}", name.replace('~', "~0").replace('/', "~1"));
    Pointer::parse(&names.iter().map(escape).collect::<String>()).expect("a pointer")
}

/// What is left of `long` without `short`, if one stretch taken out makes it that.
fn is_one_insertion(short: &[u8], long: &[u8]) -> bool {
    let before = short.iter().zip(long).take_while(|(a, b)| a == b).count();
    let after = short.iter().rev().zip(long.iter().rev()).take_while(|(a, b)| a == b).count();
    long.len() >= short.len() && before + after >= short.len()
}

/// A failure is kept in the package's `proptest-regressions`, and tried first ever after.
fn config() -> ProptestConfig {
    let kept = FileFailurePersistence::Direct("proptest-regressions/json_properties.txt");
    ProptestConfig { failure_persistence: Some(Box::new(kept)), ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn reading_gives_back_what_was_written(model in model(), style in style()) {
        let text = Render::text(&model, &style);
        let document = Document::parse(text.as_bytes());
        prop_assert_eq!(document.map(|document| model_of(document.root())), Ok(model));
    }

    #[test]
    fn arbitrary_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        agrees_with_serde_json(&bytes)?;
    }

    #[test]
    fn text_of_the_alphabet_of_json_is_read_as_serde_json_reads_it(
        text in "[\\[\\]{}:,\"\\\\u0-2deEtrufalsn.+ \n-]{0,24}"
    ) {
        agrees_with_serde_json(text.as_bytes())?;
    }

    #[test]
    fn what_is_nearly_json_is_read_as_serde_json_reads_it(bytes in nearly_json()) {
        agrees_with_serde_json(&bytes)?;
    }

    #[test]
    fn an_error_is_inside_the_text(bytes in nearly_json()) {
        if let Err(error) = Document::parse(&bytes) {
            prop_assert!(error.offset() <= bytes.len());
        }
    }

    #[test]
    fn the_canonical_form_is_its_own(model in model(), style in style()) {
        let text = Render::text(&model, &style);
        let document = Document::parse(text.as_bytes()).expect("well-formed");
        let once = canonical(document.root());
        let again = Document::parse(&once).map(|document| canonical(document.root()));
        prop_assert_eq!(again, Ok(once));
    }

    #[test]
    fn one_value_written_twice_has_one_canonical_form(
        model in model(), first in style(), second in style()
    ) {
        let texts = [Render::text(&model, &first), Render::text(&model, &second)];
        let [a, b] = texts.each_ref().map(|text| Document::parse(text.as_bytes()).expect("well-formed"));
        prop_assert_eq!(canonical(a.root()), canonical(b.root()));
        prop_assert!(a.root().same_value(b.root()));
    }

    #[test]
    fn canonical_forms_are_equal_exactly_where_the_values_are(
        a in tiny_model(), b in tiny_model(), first in style(), second in style()
    ) {
        let texts = [Render::text(&a, &first), Render::text(&b, &second)];
        let [left, right] = texts.each_ref().map(|text| Document::parse(text.as_bytes()).expect("well-formed"));
        prop_assert_eq!(canonical(left.root()) == canonical(right.root()), a == b);
    }

    #[test]
    fn numbers_are_the_same_exactly_where_their_difference_is_zero(
        a in -200..200i64, b in -200..200i64, a_power in -4..4i32, b_power in -4..4i32, zeros in 0..4usize
    ) {
        // Both in units of 10⁻⁴, as integers.
        let scaled = |digits: i64, power: i32| i128::from(digits) * 10i128.pow((power + 4).unsigned_abs());
        let texts = [format!("{a}.{}e{a_power}", "0".repeat(zeros + 1)), format!("{b}E{b_power}")];
        let [left, right] = texts.each_ref().map(|text| Document::parse(text.as_bytes()).expect("well-formed"));
        let equal = scaled(a, a_power) == scaled(b, b_power);
        prop_assert_eq!(left.root().same_value(right.root()), equal, "{:?}", texts);
    }

    #[test]
    fn a_member_is_put_as_the_naive_way_puts_it_and_no_other_byte_changes(
        mut body in tiny_object(),
        names in proptest::collection::vec("[ab~/\"]?", 1..4),
        value in "[ab]?",
        style in style(),
    ) {
        let text = Render::text(&body, &style);
        let document = Document::parse(text.as_bytes()).expect("well-formed");
        let put = put(document.root(), &pointer_of(&names), &JsonText::string(&value));
        let naive = naive_put(&mut body, &names, &Model::Text(value));
        prop_assert_eq!(put.as_ref().map(|_| ()), naive.as_ref().copied());
        if let Ok(bytes) = put {
            let theirs: serde_json::Value = serde_json::from_slice(&bytes).expect("still JSON");
            let again = Document::parse(&bytes).expect("still strict JSON");
            prop_assert_eq!(model_of(again.root()), body.clone());
            let rendered = Render::text(&body, &style);
            prop_assert_eq!(theirs, serde_json::from_str::<serde_json::Value>(&rendered).expect("JSON"));
            prop_assert!(is_one_insertion(text.as_bytes(), &bytes));
        }
    }

    #[test]
    fn members_are_set_in_a_results_meta_and_nowhere_else(
        mut reply in tiny_reply(),
        values in proptest::collection::btree_map("[ab~]?", text(), 0..4),
        style in style(),
    ) {
        let text = Render::text(&reply, &style);
        let members: Vec<_> =
            values.iter().map(|(name, value)| (name.as_str(), JsonText::string(value))).collect();
        let set = set_in_result_meta(text.as_bytes(), &members);
        let fits = naive_set(&mut reply, &values);
        prop_assert_eq!(set.is_some(), fits);
        if let Some(bytes) = set {
            let again = Document::parse(&bytes).expect("still strict JSON");
            prop_assert_eq!(model_of(again.root()), reply);
        }
    }
}
