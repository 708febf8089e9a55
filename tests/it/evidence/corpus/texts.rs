//! Envelopes that are spelled otherwise, and what looks like one.

use budget_authority::domain::json::Json;

use super::{Corpus, by_itself, json, key, key_set_of_one, payloads, signed};

/// Other spellings of the same envelope, and what looks like one.
pub(super) fn all(corpus: &mut Corpus) {
    let set = key_set_of_one();
    let document = by_itself(&payloads()[5]);
    let free = |content: &str| {
        let whole = document.replace(
            r#"{"a":0.5,"b":[12,null,true]}"#,
            &format!(r#"{{"a":{content}}}"#),
        );
        assert_ne!(whole, document);
        signed(json(&whole), &key(1))
    };
    let mut push =
        |name: &str, text: String| corpus.push(format!("{name}: {text}"), text, Some(&set));
    let Json::Object(mut members) = json(&document) else {
        panic!("an object")
    };
    members.reverse();
    let reversed = Json::Object(members).compact();
    push("reversed", reversed.clone());
    push("spaced", reversed.replace(',', " ,\n\t\r "));
    for (from, to) in [
        ("0.5", "5e-1"),
        ("0.5", "0.50"),
        ("0.5", "0.5E0"),
        ("0.5", ".5"),
        ("0.5", "0.5 "),
        ("12", "12.0"),
        ("12", "1.2e1"),
        ("12", "012"),
        ("12", "+12"),
        ("12", "0xc"),
        ("12", "NaN"),
        ("12", "Infinity"),
        ("12", "-Infinity"),
        ("12", "1e400"),
        ("12", "１２"),
        ("null", "None"),
        ("true", "True"),
        ("[12", "[,12"),
        ("true]", "true,]"),
        ("\"a\"", "'a'"),
        ("\"a\"", "\"\\u0061\""),
        ("\"a\"", "\"\\U0061\""),
        ("\"a\"", "\"\\x61\""),
        ("\"a\"", "a"),
        ("\"m\"", "\"\t\""),
        ("\"m\"", "\"\\ud800\""),
        ("\"m\"", "\"\\udc00\\ud800\""),
        ("\"m\"", "\"\\u006D\""),
        ("\"a\":0.5", "\"\\ud800\":0.5"),
        ("\"m\"", "\"m\"//"),
        ("\"m\"", "\"m\"/**/"),
        ("UNIT_MISMATCH", "UNIT\u{1f}MISMATCH"),
    ] {
        push(from, document.replacen(from, to, 1));
    }
    for (before, after) in [
        ("", ""),
        (" \n", " "),
        ("\u{feff}", ""),
        ("", "x"),
        ("", "{}"),
        ("", "\0"),
        ("\u{a0}", ""),
        ("[", "]"),
        ("\u{c}", ""),
    ] {
        push("around", format!("{before}{document}{after}"));
    }
    for whole in ["", " ", "null", "1", "\"\"", "[]", "{}", "{", "NaN"] {
        push("whole", whole.to_owned());
    }
    for content in [
        r#""\u0000\u001f\u007f\"\\/é\u2028\b\f""#,
        r#"{"\ufb33":1,"\ud83d\ude00":2,"é":3,"e\u0301":4,"":5,"Z":6}"#,
        "[0.1,-0.0,1e21,1e20,123456789012345680000,4.50,1e-6,1e-7,5e-324,1.7976931348623157e308,333333333.33333329]",
        "[9007199254740993]",
        "9223372036854775807",
        "-1000000000000000000",
        "100000000000000000000000",
        "[1e5,12e-1,0.000001234]",
        "[2.2250738585072014e-308,9.999999999999997e-7,9.999999999999997e22,1424953923781206.2,295147905179352830000,-3.3333333333333333e-5]",
    ] {
        let text = free(content).compact();
        push("content", text.clone());
        push("canonical content", json(&text).rfc8785());
        push("altered content", text.replacen("\"m\"", "\"n\"", 1));
    }
    for levels in [66, 67, 68, 69, 120] {
        push(
            "deep",
            free(&format!("{}{}", "[".repeat(levels), "]".repeat(levels))).compact(),
        );
    }
    push(
        "far too deep",
        document.replacen("0.5", &"[".repeat(100_000), 1),
    );
    let mut bytes = document.clone().into_bytes();
    let at = document.find("\"m\"").expect("a message") + 1;
    for wrong in [0x80, 0xc0, 0xff] {
        bytes[at] = wrong;
        corpus.push(format!("byte {wrong:x}"), bytes.clone(), Some(&set));
    }
    let utf16: Vec<u8> = document.encode_utf16().flat_map(u16::to_le_bytes).collect();
    corpus.push("UTF-16".to_owned(), utf16, Some(&set));
}
