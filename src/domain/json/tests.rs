use proptest::prelude::*;

use super::*;
use crate::domain::rows;

fn parse(text: &str) -> Json {
    Json::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn refusal(bytes: &[u8]) -> String {
    Json::parse(bytes).expect_err("refused").to_string()
}

#[test]
fn hostile_bodies_are_refused_naming_the_place() {
    for (bytes, message) in [
        (&b""[..], "the body is empty"),
        (b" \r\n\t", "the body is empty"),
        (b"{\"a\":\"\xff\"}", "invalid UTF-8 at byte 6"),
        (b"\xef\xbb\xbf{}", "expected value at byte 0"),
        (b"{", "EOF while parsing an object at byte 0"),
        (b"{\"a\":1}x", "trailing characters at byte 7"),
        (b"{\"a\":1}{}", "trailing characters at byte 7"),
        (b"{\n\"a\":1,}", "key must be a string at byte 8"),
        (b"{'a':1}", "key must be a string at byte 1"),
        (b"[1,]", "expected value at byte 3"),
        (b"[01]", "invalid number at byte 2"),
        (b"[+1]", "expected value at byte 1"),
        (b"[.5]", "expected value at byte 1"),
        (b"[1.]", "invalid number at byte 3"),
        (b"[NaN]", "expected value at byte 1"),
        (b"[Infinity]", "expected value at byte 1"),
        (
            b"[\"a\nb\"]",
            "control character (\\u0000-\\u001F) found while parsing a string at byte 2",
        ),
        (b"// {}", "expected value at byte 0"),
    ]
    .into_iter()
    .chain(
        rows(
            r#"
            {"a":1,"a":2} => duplicate member `a`
            {"a":1,"\u0061":2} => duplicate member `a`
            {"metadata":{"x":[{"k":1,"k":1}]}} => duplicate member `metadata.x[0].k`
            {"a\u0000b":1,"a\u0000b":2} => duplicate member `a\u{0}b`
            {"metadata":{"x":1e400}} => the number at `metadata.x` is beyond the range of a double
            [-1e999] => the number at `[0]` is beyond the range of a double
            "#,
        )
        .map(|(text, message)| (text.as_bytes(), message)),
    ) {
        let text = String::from_utf8_lossy(bytes);
        assert_eq!(refusal(bytes), message, "{text}");
    }
}

#[test]
fn a_duplicate_is_found_among_few_and_many_members() {
    for count in [1, 15, 16, 17, 40] {
        let names: Vec<_> = (0..count).map(|index| format!("\"m{index}\":0")).collect();
        let names = names.join(",");
        assert!(Json::parse(format!("{{{names}}}").as_bytes()).is_ok());
        let last = count - 1;
        let message = refusal(format!("{{{names},\"m{last}\":0}}").as_bytes());
        assert_eq!(message, format!("duplicate member `m{last}`"));
    }
}

#[test]
fn lone_surrogates_are_refused_in_values_and_names() {
    for text in [
        r#"{"a":"\ud800"}"#,
        r#"{"a":"\udc00x"}"#,
        r#"{"\ud800":1}"#,
        r#"["\ud83d\u0041"]"#,
    ] {
        let message = refusal(text.as_bytes());
        assert!(message.contains("at byte"), "{text}: {message}");
    }
    assert_eq!(parse(r#""\ud83d\ude00""#), Json::from("😀"));
}

#[test]
fn depth_is_bounded_without_recursing_further() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(Json::parse(nested(DEPTH_MAX).as_bytes()).is_ok());
    assert!(
        refusal(nested(DEPTH_MAX + 1).as_bytes())
            .starts_with("nested deeper than 64 levels at `[0][0]")
    );
    assert!(refusal(nested(500_000).as_bytes()).starts_with("nested deeper"));
    assert!(refusal("[".repeat(500_000).as_bytes()).starts_with("EOF"));
    let objects = format!("{}1{}", r#"{"a":"#.repeat(65), "}".repeat(65));
    assert!(refusal(objects.as_bytes()).starts_with("nested deeper"));
}

#[test]
fn number_literals_survive() {
    let text = r#"{"a":123456789012345678901234567890,"b":9007199254740993,"c":1.50,"d":1E3,"e":-0,"f":-0.0,"g":1e-999}"#;
    assert_eq!(parse(text).compact(), text);
    assert_eq!(
        parse(text).canonical(),
        r#"{"a":123456789012345678901234567890,"b":9007199254740993,"c":1.5,"d":1000,"e":0,"f":0,"g":0}"#
    );
}

#[test]
fn the_canonical_form_follows_the_published_examples() {
    for (text, canonical) in [
        (
            r#"{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],"string":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/","literals":[null,true,false]}"#,
            r#"{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}"#,
        ),
        // Sorted by UTF-16 code units: the surrogate pair of the emoji comes before U+FB33.
        (
            r#"{"\u20ac":"Euro Sign","\r":"Carriage Return","\ufb33":"Hebrew Letter Dalet With Dagesh","1":"One","\ud83d\ude00":"Emoji: Grinning Face","\u0080":"Control","\u00f6":"Latin Small Letter O With Diaeresis"}"#,
            "{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\u{80}\":\"Control\",\"ö\":\"Latin Small Letter O With Diaeresis\",\"€\":\"Euro Sign\",\"😀\":\"Emoji: Grinning Face\",\"\u{fb33}\":\"Hebrew Letter Dalet With Dagesh\"}",
        ),
        (r#" { "b" : [ ] , "a" : { } } "#, r#"{"a":{},"b":[]}"#),
        (
            r#""\b\t\n\f\r\u0000\u001f\u007f\/""#,
            "\"\\b\\t\\n\\f\\r\\u0000\\u001f\u{7f}/\"",
        ),
    ] {
        assert_eq!(parse(text).canonical(), canonical);
        assert_eq!(parse(text).rfc8785(), canonical);
    }
}

/// The numbers of RFC 8785's appendix B and of the evidence format.
#[test]
fn numbers_have_the_digits_of_ecmascript() {
    for (bits, text) in [
        (0x0000_0000_0000_0000, "0"),
        (0x8000_0000_0000_0000, "0"),
        (0x0000_0000_0000_0001, "5e-324"),
        (0x8000_0000_0000_0001, "-5e-324"),
        (0x7fef_ffff_ffff_ffff, "1.7976931348623157e+308"),
        (0xffef_ffff_ffff_ffff, "-1.7976931348623157e+308"),
        (0x4340_0000_0000_0000, "9007199254740992"),
        (0xc340_0000_0000_0000, "-9007199254740992"),
        (0x4430_0000_0000_0000, "295147905179352830000"),
        (0x44b5_2d02_c7e1_4af5, "9.999999999999997e+22"),
        (0x44b5_2d02_c7e1_4af6, "1e+23"),
        (0x44b5_2d02_c7e1_4af7, "1.0000000000000001e+23"),
        (0x444b_1ae4_d6e2_ef4e, "999999999999999700000"),
        (0x444b_1ae4_d6e2_ef4f, "999999999999999900000"),
        (0x444b_1ae4_d6e2_ef50, "1e+21"),
        (0x3eb0_c6f7_a0b5_ed8c, "9.999999999999997e-7"),
        (0x3eb0_c6f7_a0b5_ed8d, "0.000001"),
        (0x41b3_de43_5555_5553, "333333333.3333332"),
        (0x41b3_de43_5555_5554, "333333333.33333325"),
        (0x41b3_de43_5555_5555, "333333333.3333333"),
        (0x41b3_de43_5555_5556, "333333333.3333334"),
        (0x41b3_de43_5555_5557, "333333333.33333343"),
        (0xbecb_f647_612f_3696, "-0.0000033333333333333333"),
        (0x4314_3ff3_c1cb_0959, "1424953923781206.2"),
    ] {
        let literal = format!("{:e}", f64::from_bits(bits));
        assert_eq!(Json::Number(literal.into()).rfc8785(), text);
    }
}

#[test]
fn integers_keep_their_digits_in_payload_hashes_and_not_in_evidence() {
    for (literal, rounded) in [
        ("9007199254740991", "9007199254740991"),
        ("9007199254740992", "9007199254740992"),
        ("9007199254740993", "9007199254740992"),
        ("-9007199254740993", "-9007199254740992"),
        ("4611686018427387904", "4611686018427388000"),
        ("1000000000000000000", "1000000000000000000"),
        ("9223372036854775807", "9223372036854776000"),
        ("1000000000000000000000", "1e+21"),
        ("-0", "0"),
    ] {
        let json = parse(&format!("[{{\"a\":{literal}}}]"));
        assert_eq!(json.rfc8785(), format!("[{{\"a\":{rounded}}}]"));
        let is_rounded = literal != rounded && literal != "-0";
        assert_eq!(json.first_rounded(), is_rounded.then_some(literal));
        let kept = if literal == "-0" { "0" } else { literal };
        assert_eq!(json.canonical(), format!("[{{\"a\":{kept}}}]"));
    }
    assert_eq!(parse("[1.5,1e21,-0.0]").first_rounded(), None);
}

#[test]
fn a_free_object_is_stored_and_returned_unchanged() {
    let object =
        FreeObject::from_stored(parse(r#"{ "z" : 1.50 , "a" : null }"#).compact()).unwrap();
    assert_eq!(
        serde_json::to_string(&object).unwrap(),
        r#"{"z":1.50,"a":null}"#
    );
    assert_eq!(format!("{object:?}"), "FreeObject(19 bytes)");
    assert!(FreeObject::from_stored("[]".to_owned()).is_none());
    assert!(FreeObject::from_stored("{".to_owned()).is_none());
}

/// Names about the places where the order of bytes and that of UTF-16 code units part; many begin alike.
pub(super) fn any_name() -> impl Strategy<Value = String> {
    let part = prop::sample::select(vec![
        "a",
        "Z",
        "\u{7f}",
        "\u{e9}",
        "\u{d7ff}",
        "\u{e000}",
        "\u{fb33}",
        "\u{ffff}",
        "\u{10000}",
        "\u{10ffff}",
    ]);
    prop::collection::vec(part, 0..4).prop_map(|parts| parts.concat())
}

fn any_json() -> impl Strategy<Value = Json> {
    let number = prop_oneof![
        any::<i64>().prop_map(|number| number.to_string()),
        any::<f64>()
            .prop_filter("finite", |number| number.is_finite())
            .prop_map(|number| format!("{number:e}")),
        "[1-9][0-9]{0,40}",
    ];
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::Bool),
        number.prop_map(|literal| Json::Number(literal.into())),
        any::<String>().prop_map(|text| Json::from(&*text)),
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Json::Array),
            prop::collection::btree_map(any::<String>(), inner, 0..6).prop_map(Json::from_iter),
        ]
    })
}

/// Another text of the same value: members turned round, blanks between all tokens, strings escaped throughout.
fn rewritten(json: &Json) -> String {
    match json {
        Json::String(string) => escaped(string),
        Json::Array(items) => format!(
            " [ {} ] ",
            items.iter().map(rewritten).collect::<Vec<_>>().join(" ,\n")
        ),
        Json::Object(members) => {
            let members: Vec<_> = members
                .iter()
                .rev()
                .map(|(name, value)| format!("\t{} :\r {}", escaped(name), rewritten(value)))
                .collect();
            format!("{{ {} }}", members.join(" , "))
        }
        other => other.compact(),
    }
}

fn escaped(string: &str) -> String {
    let units: String = string
        .encode_utf16()
        .map(|unit| format!("\\u{unit:04X}"))
        .collect();
    format!("\"{units}\"")
}

/// Whether a number is no integer of 64 bits.
fn has_fraction(json: &Json) -> bool {
    match json {
        Json::Number(literal) => {
            literal.parse::<i64>().is_err() && literal.parse::<u64>().is_err() || literal == "-0"
        }
        Json::Array(items) => items.iter().any(has_fraction),
        Json::Object(members) => members.iter().any(|(_, value)| has_fraction(value)),
        _ => false,
    }
}

proptest! {
    #[test]
    fn both_readers_give_the_same_value(json in any_json(), depth_max in 0..5_usize) {
        let text = rewritten(&json);
        let raw = serde_json::from_str(&text).expect("JSON");
        let reader = Reader { text: &text, depth_max };
        let exact = reader.value(raw, Place::BODY, 1).ok();
        match of_integers(&text, depth_max) {
            Some(read) => prop_assert_eq!(Some(read), exact),
            None => prop_assert!(exact.is_none() || has_fraction(&json)),
        }
    }

    #[test]
    fn the_canonical_form_does_not_depend_on_order_white_space_or_escapes(json in any_json()) {
        let canonical = json.canonical();
        prop_assert_eq!(parse(&rewritten(&json)).canonical(), canonical.clone());
        prop_assert_eq!(parse(&json.compact()), json.clone());
        prop_assert_eq!(parse(&canonical).canonical(), canonical);
        let rounded = json.rfc8785();
        prop_assert_eq!(parse(&rewritten(&json)).rfc8785(), rounded.clone());
        let again = parse(&rounded);
        prop_assert_eq!(again.first_rounded(), None);
        prop_assert_eq!(again.rfc8785(), rounded);
    }

    #[test]
    fn names_are_ordered_by_utf16_code_units(a in any_name(), b in any_name(), c in any::<String>()) {
        for (a, b) in [(&a, &b), (&a, &c), (&c, &b), (&a, &format!("{a}{b}"))] {
            prop_assert_eq!(canonical::utf16_order(a, b), a.encode_utf16().cmp(b.encode_utf16()), "{:?} {:?}", a, b);
        }
    }

    #[test]
    fn no_bytes_make_the_parser_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Json::parse(&bytes);
    }
}
