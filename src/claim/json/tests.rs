use super::*;

#[track_caller]
fn read(text: &str) -> Document<'_> {
    Document::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{error}: {text:.200}"))
}

#[track_caller]
fn refused(bytes: impl AsRef<[u8]>) -> JsonError {
    Document::parse(bytes.as_ref()).expect_err("this must be refused")
}

fn nested(depth: usize) -> String {
    "[".repeat(depth) + &"]".repeat(depth)
}

/// An object whose `count` members are all called differently.
fn wide(count: usize) -> String {
    let members: Vec<_> = (0..count).map(|index| format!(r#""member-{index}":{index}"#)).collect();
    format!("{{{}}}", members.join(","))
}

#[test]
fn the_tape_gives_back_what_the_text_says() {
    let text = " {\"a\" : [1, {\"b\":null}, []] ,\n\"c\":{}, \"d\":\"x\\ny\", \"e\":-1.50E+3,\t\"f\":true}\r\n";
    let document = read(text);
    let root = document.root();
    assert_eq!(root.kind(), Kind::Object);
    assert_eq!(root.span(), 1..text.trim_end().len());
    let members: Vec<_> =
        root.members().map(|(name, value)| (name, value.kind(), value.raw())).collect();
    let expected = [
        ("a", Kind::Array, r#"[1, {"b":null}, []]"#),
        ("c", Kind::Object, "{}"),
        ("d", Kind::String, r#""x\ny""#),
        ("e", Kind::Number, "-1.50E+3"),
        ("f", Kind::Bool, "true"),
    ];
    assert_eq!(members, expected.map(|(name, kind, raw)| (Cow::Borrowed(name), kind, raw)));
    let a = root.get("a").expect("a is there");
    let elements: Vec<_> = a.elements().map(Value::raw).collect();
    assert_eq!(elements, ["1", r#"{"b":null}"#, "[]"]);
    assert_eq!(&text[a.span()], a.raw());
    assert_eq!(root.get("d").and_then(Value::as_str).as_deref(), Some("x\ny"));
}

#[test]
fn members_and_elements_of_anything_else_are_none() {
    let document = read(r#"[{"a":[2]},"a",null,7]"#);
    let root = document.root();
    assert!(root.get("a").is_none() && root.members().next().is_none());
    for element in root.elements() {
        assert_eq!(element.elements().count(), 0, "{}", element.raw());
        assert_eq!(element.members().count(), usize::from(element.kind() == Kind::Object));
    }
    let last = root.elements().last().map(|value| (value.raw(), value.as_str()));
    assert_eq!(last, Some(("7", None)));
}

#[test]
fn names_and_strings_are_unescaped() {
    let document =
        read(r#"{"\u0061\/\ud83d\ude00é":"\"\\\/\b\f\n\r\t\u0000\uFFFF","plain":"é😀"}"#);
    let root = document.root();
    let escaped = root.get("a/😀é").and_then(Value::as_str);
    assert_eq!(escaped.as_deref(), Some("\"\\/\u{8}\u{c}\n\r\t\0\u{ffff}"));
    assert!(matches!(root.get("plain").and_then(Value::as_str), Some(Cow::Borrowed("é😀"))));
    assert!(root.get("a/😀").is_none() && root.get("a/😀éé").is_none());
}

#[test]
fn each_fault_has_its_own_error_and_place() {
    let cases: [(&[u8], JsonError); 27] = [
        (b"", JsonError::Empty(0)),
        (b" \n", JsonError::Empty(2)),
        (b"\xef\xbb\xbf{}", JsonError::ByteOrderMark(0)),
        (b"\xff\xfe{\0}\0", JsonError::Utf8(0)),
        (b"{\"a\":\"\xc3\"}", JsonError::Utf8(6)),
        (b"[\"\xed\xa0\x80\"]", JsonError::Utf8(2)),
        (b"[\"\xc0\xaf\"]", JsonError::Utf8(2)),
        ("[\u{feff}1]".as_bytes(), JsonError::Unexpected(1)),
        (b"[1,]", JsonError::Unexpected(3)),
        (b"{\"a\":1,}", JsonError::Unexpected(7)),
        (b"{\"a\" 1}", JsonError::Unexpected(5)),
        (b"{1:1}", JsonError::Unexpected(1)),
        (b"[1}", JsonError::Unexpected(2)),
        (b"[NaN]", JsonError::Unexpected(1)),
        (b"[tru]", JsonError::Unexpected(1)),
        (b"[1 /*x*/]", JsonError::Unexpected(3)),
        (b"[\xc2\xa01]", JsonError::Unexpected(1)),
        (b"[01]", JsonError::Number(1)),
        (b"[-]", JsonError::Number(1)),
        (b"[\"ab\\x41\"]", JsonError::Escape(4)),
        (b"[\"\\u00g0\"]", JsonError::Escape(2)),
        (b"[\"a\nb\"]", JsonError::ControlCharacter(3)),
        (b"[\"a", JsonError::Truncated(3)),
        (b"{\"a\":", JsonError::Truncated(5)),
        (b"[[1]", JsonError::Truncated(4)),
        (b"{} {}", JsonError::TrailingData(3)),
        (b"nullx", JsonError::TrailingData(4)),
    ];
    for (bytes, error) in cases {
        let shown = String::from_utf8_lossy(bytes).into_owned();
        assert_eq!(refused(bytes), error, "{shown}");
        assert!(error.to_string().contains(&error.offset().to_string()), "{error}");
    }
}

#[test]
fn numbers_follow_the_grammar() {
    for number in ["0", "-0", "10", "0.0", "1.5e10", "1E+2", "2e-0", "-9.010", "1e999999999999"] {
        assert_eq!(read(number).root().raw(), number);
    }
    for number in ["00", "-01", "1.", "-", "1e", "1e+", "1.e1", "-.5", "1.5e-"] {
        assert_eq!(refused(number), JsonError::Number(0), "{number}");
    }
    for number in [".5", "+1", "Infinity"] {
        assert_eq!(refused(number), JsonError::Unexpected(0), "{number}");
    }
    for (number, at) in [("0x10", 1), ("1_000", 1), ("1.2.3", 3), ("1e1.5", 3)] {
        assert_eq!(refused(number), JsonError::TrailingData(at), "{number}");
    }
}

#[test]
fn half_a_pair_of_surrogates_is_refused_wherever_it_stands() {
    let halves = [
        r"\ud800",
        r"\uDBFF",
        r"\udc00",
        r"\uDFFF",
        r"\ud83dx",
        r"\ud83d\n",
        r"\ud83d\u0041",
        r"\ud83d\ud83d",
        r"\ude00\ud83d",
    ];
    for half in halves {
        assert_eq!(refused(format!(r#"["ab{half}"]"#)), JsonError::LoneSurrogate(4), "{half}");
        assert_eq!(refused(format!(r#"{{"{half}":1}}"#)), JsonError::LoneSurrogate(2), "{half}");
    }
    assert_eq!(refused(r#"["\ud83d\ude00\ud83d"]"#), JsonError::LoneSurrogate(14));
}

#[test]
fn every_control_character_must_be_escaped() {
    for control in 0..0x20u8 {
        for length in 0..20 {
            let text = [b"[\"", "é".repeat(length).as_bytes(), &[control], b"12345678\"]"].concat();
            assert_eq!(refused(text), JsonError::ControlCharacter(2 + 2 * length), "{control}");
        }
    }
    assert_eq!(
        read("\"\u{7f}\u{80}\u{2028}\"").root().as_str().as_deref(),
        Some("\u{7f}\u{80}\u{2028}")
    );
}

#[test]
fn the_end_of_a_string_is_found_at_every_distance() {
    for length in 0..40 {
        for filler in ["a", "\u{7f}", "é", "!", "#", "[", "]"] {
            let content = filler.repeat(length);
            for (end, tail) in [("", ""), (r"\\", "\\"), (r#"\""#, "\"")] {
                let text = format!(r#"["{content}{end}"]"#);
                let document = read(&text);
                let string = document.root().elements().next().and_then(Value::as_str);
                assert_eq!(string.as_deref(), Some(format!("{content}{tail}").as_str()), "{text}");
            }
        }
    }
}

#[test]
fn depth_is_bounded() {
    assert_eq!(read(&nested(128)).root().kind(), Kind::Array);
    assert_eq!(refused(nested(129)), JsonError::TooDeep(128));
    assert_eq!(refused("[".repeat(1 << 20)), JsonError::TooDeep(128));
    let objects = |depth: usize| r#"{"a":"#.repeat(depth - 1) + "{}" + &"}".repeat(depth - 1);
    assert_eq!(read(&objects(128)).root().kind(), Kind::Object);
    assert_eq!(refused(objects(129)), JsonError::TooDeep(128 * r#"{"a":"#.len()));
    let siblings = format!("[{}]", vec![nested(127); 3].join(","));
    assert_eq!(read(&siblings).root().elements().count(), 3, "closing gives the levels back");
}

#[test]
fn a_repeated_name_is_refused_at_any_depth() {
    let cases = [
        (r#"{"a":1,"a":1}"#, 7),
        (r#"{"":1,"":2}"#, 6),
        (r#"{"a":1,"\u0061":2}"#, 7),
        (r#"{"\u0061":1,"a":2}"#, 12),
        (r#"{"\u0061":1,"\u0061":2}"#, 12),
        (r#"{"\/":1,"/":2}"#, 8),
        (r#"{"😀":1,"\ud83d\uDE00":2}"#, 10),
        (r#"{"x":[0,{"b":1,"c":{},"b":2}]}"#, 22),
        (r#"{"a":{"a":1},"b":[{"a":1}],"a":0}"#, 27),
        (r#"{"same-first-eight-1":1,"same-first-eight-1":2}"#, 24),
        (r#"{"a":1,"b":2,"b":3,"a":4}"#, 13),
    ];
    for (text, at) in cases {
        assert_eq!(refused(text), JsonError::DuplicateName(at), "{text}");
    }
}

#[test]
fn names_that_only_look_alike_are_different() {
    let texts = [
        r#"{"a":1,"A":2," a":3,"a ":4,"":5,"\u0000":6,"\u0000\u0000":7,"a\u0000":8}"#,
        r#"{"é":1,"e\u0301":2,"ｅ":3}"#,
        r#"{"same-first-eight-1":1,"same-first-eight-2":2,"same-first-eight-\u0033":3}"#,
        r#"{"a":{"a":{"a":1}},"b":{"a":1}}"#,
    ];
    for text in texts {
        assert_eq!(read(text).root().kind(), Kind::Object);
    }
}

#[test]
fn a_repeated_name_among_many_is_refused_where_it_repeats() {
    for count in [1, 15, 16, 17, 40, 1000] {
        let unique = wide(count);
        assert_eq!(read(&unique).root().members().count(), count);
        for repeated in [0, count / 2, count - 1] {
            for name in [format!("member-{repeated}"), format!("\\u006dember-{repeated}")] {
                let body = &unique[..unique.len() - 1];
                let text = format!(r#"{body},"{name}":0,"member-{repeated}":0,"member-0":0}}"#);
                assert_eq!(
                    refused(&text),
                    JsonError::DuplicateName(unique.len()),
                    "{name} in {count}"
                );
            }
        }
    }
}

#[test]
fn a_huge_object_is_sorted_not_compared_pair_by_pair() {
    // 200 000 members are 2 × 10¹⁰ pairs; a pairwise check would not come back in this test.
    let text = wide(200_000);
    assert_eq!(read(&text).root().members().count(), 200_000);
}

#[test]
fn what_does_not_fit_the_tape_is_refused() {
    assert_eq!(check_length(MAX_BYTES), Ok(()));
    assert_eq!(check_length(MAX_BYTES + 1), Err(JsonError::TooLarge(MAX_BYTES)));
}

#[test]
fn neither_debug_nor_errors_show_content() {
    let document = read(r#"{"card":"4242"}"#);
    let shown = format!("{document:?} {:?}", document.root());
    assert!(!shown.contains("card") && !shown.contains("4242"), "{shown}");
    let error = refused(r#"{"card":"4242","card":1}"#);
    assert!(!format!("{error} {error:?}").contains("card"));
}

#[track_caller]
fn assert_same(a: &str, b: &str, expected: bool) {
    let (left, right) = (read(a), read(b));
    assert_eq!(left.root().same_value(right.root()), expected, "{a} and {b}");
    assert_eq!(right.root().same_value(left.root()), expected, "{b} and {a}");
}

#[test]
fn equal_numbers_are_the_same_however_they_are_written() {
    let groups: [&[&str]; 7] = [
        &["1", "1.0", "1e0", "10e-1", "0.1e1", "0.0001E+4", "1.000", "100E-0002"],
        &["0", "-0", "0.0", "0e99999999999999999999999", "-0.000e-5"],
        &["-12.5", "-125e-1", "-0.125e2", "-12.50"],
        &["9007199254740993", "9007199254740993.0", "9.007199254740993e15"],
        &["1e999999999", "10e999999998", "0.1e1000000000", "1.0e+0999999999"],
        &["1e-99999999999999999999", "10e-100000000000000000000", "0.01e-99999999999999999997"],
        &["1e1000000000000000000000", "10e999999999999999999999", "0.01e1000000000000000000002"],
    ];
    for (place, group) in groups.iter().enumerate() {
        for a in *group {
            for (other_place, other) in groups.iter().enumerate() {
                for b in *other {
                    assert_same(a, b, place == other_place);
                }
            }
        }
    }
}

#[test]
fn numbers_that_differ_anywhere_are_not_the_same() {
    let pairs = [
        ("1", "-1"),
        ("1", "2"),
        ("1", "10"),
        ("1", "0.1"),
        ("10", "1"),
        ("9007199254740993", "9007199254740992"),
        ("0.1", "0.1000000000000000055511151231257827"),
        ("1e5", "1e-5"),
        ("1e0", "1e1"),
        ("1e999999999", "1e999999998"),
        ("1e9999999999999999999999", "1e-9999999999999999999999"),
        ("1e10000000000000000000000", "1e9999999999999999999999"),
        ("0", "1e-99999999999999999999999999"),
        ("101", "11"),
        ("1.01", "1.1"),
    ];
    for (a, b) in pairs {
        assert_same(a, b, false);
    }
}

#[test]
fn long_literals_are_compared_in_linear_time() {
    // Half a million digits; anything quadratic, or an exponent that is evaluated, does not end.
    let digits = "7".repeat(500_000);
    assert_same(&format!("{digits}e-1"), &format!("{digits}e-0001"), true);
    assert_same(&format!("0.{digits}"), &format!("{digits}e-500000"), true);
    assert_same(&format!("1e{digits}"), &format!("10e{}6", &digits[1..]), true);
    assert_same(&format!("1e{digits}"), &format!("1e{}8", &digits[1..]), false);
    assert_same(&format!("1e-{digits}"), &format!("1e{digits}"), false);
}

#[test]
fn other_values_are_the_same_by_content() {
    let same = [
        ("null", "null"),
        ("true", "true"),
        (r#""a/é""#, r#""\u0061\/\u00e9""#),
        ("[]", "[ ]"),
        ("[1,[2]]", "[1.0,[20e-1]]"),
        ("{}", "{ }"),
        (r#"{"a":1,"b":[{"c":2}]}"#, r#"{"b":[{"\u0063":2.0}],"a":1}"#),
    ];
    for (a, b) in same {
        assert_same(a, b, true);
    }
    let different = [
        ("null", "false"),
        ("true", "false"),
        ("1", r#""1""#),
        (r#""a""#, r#""A""#),
        (r#""é""#, r#""e\u0301""#),
        ("[]", "{}"),
        ("[1]", "[1,1]"),
        ("[1,2]", "[2,1]"),
        (r#"{"a":1}"#, r#"{"a":1,"b":1}"#),
        (r#"{"a":1}"#, r#"{"b":1}"#),
        (r#"{"a":1}"#, r#"{"a":2}"#),
        (r#"{"a":null}"#, "{}"),
    ];
    for (a, b) in different {
        assert_same(a, b, false);
    }
}
