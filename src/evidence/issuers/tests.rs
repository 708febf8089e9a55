use super::*;
use crate::evidence::keys::SigningKey;

#[test]
fn a_server_id_is_the_base_of_the_api() {
    for good in [
        "https://a.example/v1",
        "http://127.0.0.1:7878/v1",
        "https://a.example/x/v1",
    ] {
        assert_eq!(ServerId::parse(good).map(|id| id.0), Ok(good.to_owned()));
    }
    for (bad, error) in [
        ("", NOT_ABSOLUTE),
        ("a.example/v1", NOT_ABSOLUTE),
        ("ftp://a.example/v1", NOT_ABSOLUTE),
        ("https:///v1 ", NOT_ABSOLUTE),
        (" https://a.example/v1", NOT_ABSOLUTE),
        ("https://a.example/v1\n", NOT_ABSOLUTE),
        ("https://a.example\\v1", NOT_ABSOLUTE),
        ("https://ä.example/v1", NOT_ABSOLUTE),
        ("https://a.example/v1?x", MORE_THAN_A_PATH),
        ("https://a.example/#/v1", MORE_THAN_A_PATH),
        ("https://u:p@a.example/v1", MORE_THAN_A_PATH),
        ("https://a.example/v1/", NOT_V1),
        ("https://a.example", NOT_V1),
        ("https://a.example/v2", NOT_V1),
        ("https://a.example/xv1", NOT_V1),
    ] {
        assert_eq!(ServerId::parse(bad), Err(error), "{bad}");
    }
}

#[test]
fn a_trailing_slash_makes_another_server() {
    let hash = "6b62ee720df914391f7cba8301004d7729c3303ba4cf8ca282044273f00d65b4";
    assert_eq!(server_hash("https://authority.example.com/v1"), hash);
    let other = "741243bfd5615d59ad6309b91d82739b8eabfda90acd3d992e7a538469ee53f4";
    assert_eq!(server_hash("https://authority.example.com/v1/"), other);
}

#[test]
fn a_signer_reads_back_in_both_dialects() {
    let server = ServerId::parse("https://a.example/v1").expect("a server id");
    for dialect in Dialect::ALL {
        let signer = Signer::listed(dialect, &server, "k#1");
        assert_eq!(Signer::parse(&signer.to_string()), Some(signer));
    }
    let hash = server_hash(server.as_str());
    for bad in [
        String::new(),
        format!("did:web:{hash}#k"),
        format!("did:service:{hash}"),
        format!("did:service:{hash}#"),
        format!("did:service:{}#k", hash.to_uppercase()),
    ] {
        assert_eq!(Signer::parse(&bad), None, "{bad}");
    }
}

fn listed(kid: &str, seed: u8, from_ms: i64, until_ms: Option<i64>) -> ListedKey {
    let key = SigningKey::parse(&format!("{seed:02x}").repeat(32)).expect("a seed");
    ListedKey {
        kid: kid.to_owned(),
        key: key.public(),
        from_ms,
        until_ms,
    }
}

fn issuers(keys: &[ListedKey]) -> Result<Issuers, String> {
    let server_id = ServerId::parse("https://a.example/v1").expect("a server id");
    Issuers::new(
        Dialect::Service,
        server_id,
        SignerForm::Listed,
        keys.to_vec(),
    )
}

#[test]
fn at_most_one_key_signs_at_any_time() {
    // In any order; between b and c is a gap.
    let keys = [
        listed("c", 3, 30, None),
        listed("a", 1, 5, Some(10)),
        listed("b", 2, 10, Some(20)),
    ];
    let issuers = issuers(&keys).expect("windows that follow one another");
    for (at_ms, kid) in [
        (4, None),
        (5, Some("a")),
        (9, Some("a")),
        (10, Some("b")),
        (20, None),
        (30, Some("c")),
        (i64::MAX, Some("c")),
    ] {
        let keys = issuers.key_set().keys.iter();
        let signing: Vec<_> = keys.filter(|listed| listed.covers(at_ms)).collect();
        assert!(signing.len() < 2, "{at_ms}");
        let signing = signing.first().map(|listed| listed.kid.as_str());
        assert_eq!(signing, kid, "{at_ms}");
    }
    let kids = issuers.key_set().keys.iter().map(|listed| &*listed.kid);
    assert_eq!(kids.collect::<Vec<_>>(), ["a", "b", "c"]);
}

#[test]
fn keys_with_overlapping_windows_are_refused() {
    for (keys, error) in [
        (
            [listed("a", 1, 0, Some(9)), listed("a", 2, 9, None)],
            "two keys have the id `a`",
        ),
        (
            [listed("a", 1, 0, Some(9)), listed("b", 1, 9, None)],
            "the keys `a` and `b` are the same key",
        ),
        (
            [listed("a", 1, 0, Some(0)), listed("b", 2, 9, None)],
            "the window of the key `a` ends before it begins",
        ),
        (
            [listed("a", 1, 0, Some(9)), listed("b", 2, 9, Some(8))],
            "the window of the key `b` ends before it begins",
        ),
        (
            [listed("a", 1, 0, Some(9)), listed("b", 2, 8, None)],
            "the windows of the keys `a` and `b` overlap",
        ),
        (
            [listed("a", 1, 0, None), listed("b", 2, 8, None)],
            "the windows of the keys `a` and `b` overlap",
        ),
        (
            [listed("a", 1, 0, Some(9)), listed("b", 2, 0, Some(3))],
            "the windows of the keys `a` and `b` overlap",
        ),
    ] {
        assert_eq!(issuers(&keys), Err(error.to_owned()), "{keys:?}");
    }
    assert!(issuers(&[]).is_ok());
}

#[test]
fn the_form_decides_how_a_key_is_named() {
    let keys = [listed("a", 1, 0, None)];
    let by_set = issuers(&keys).expect("a key");
    let raw = Issuers {
        form: SignerForm::Raw,
        ..by_set.clone()
    };
    let name = |issuers: &Issuers| issuers.issuer(&keys[0]).signer.to_string();
    assert_eq!(name(&raw), keys[0].key.hex());
    assert!(name(&by_set).ends_with("#a"));
    let other = |issuers: &Issuers| issuers.both_issuers(&keys[0])[1].clone();
    assert_eq!(other(&raw), by_set.issuer(&keys[0]));
    assert_eq!(other(&by_set), raw.issuer(&keys[0]));
    for issuer in [raw.issuer(&keys[0]), other(&raw)] {
        assert_eq!(raw.listed(&issuer, 0), Some(&keys[0]));
    }
    // Another key of that id, which was configured once.
    assert_eq!(raw.listed(&other(&raw), 5), None);
}
