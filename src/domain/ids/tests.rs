//! Ids: forms, partitions, derivation.

use super::*;
use crate::domain::api_key::secret::KeyId;
use crate::domain::policy::PolicyId;
use crate::domain::webhook::{ReplayId, SubscriptionId};

fn tenant(text: &str) -> TenantId {
    TenantId::parse(text).unwrap()
}

fn key(text: &str) -> IdempotencyKey {
    IdempotencyKey::parse(text).unwrap()
}

#[test]
fn partitions_are_three_lower_case_hex_digits_below_1024() {
    for (text, index) in [
        ("000", Some(0)),
        ("05f", Some(95)),
        ("3ff", Some(1023)),
        ("400", None),
        ("05F", None),
        ("5f", None),
        ("+5f", None),
        ("", None),
    ] {
        let partition = Partition::parse(text);
        assert_eq!(partition.map(Partition::index), index, "{text}");
    }
    assert_eq!(Partition::all().count(), 1024);
    assert_eq!(Partition::new(7).unwrap().to_string(), "007");
}

#[test]
fn a_tenant_belongs_to_the_partition_of_its_hash() {
    let digest = Sha256::digest("acme");
    let expected = u16::from_be_bytes([digest[0], digest[1]]) / 64;
    assert_eq!(tenant("acme").partition().index(), expected);
}

#[test]
fn tenant_ids_are_lower_case_letters_digits_and_hyphens() {
    for text in ["acme", "-acme-", "a1b", &"a".repeat(64)] {
        assert!(TenantId::parse(text).is_some(), "{text}");
    }
    for text in [
        "ac",
        "ACME",
        "a.b",
        "a_b",
        "acme\0",
        "äcme",
        "__admin__",
        "",
        &"a".repeat(65),
    ] {
        assert!(TenantId::parse(text).is_none(), "{text}");
    }
}

#[test]
fn derived_ids_depend_on_secret_kind_tenant_and_key() {
    let secret = DeploymentSecret::generate();
    let of = |secret: &DeploymentSecret, of: &str, under: &str| {
        ReservationId::derive(secret, &tenant(of), &key(under))
    };
    let id = of(&secret, "acme", "k");
    assert_eq!(id, of(&secret, "acme", "k"));
    assert_eq!(id.as_str().len(), 1 + 3 + 1 + 24);
    assert_eq!(id.partition(), Some(tenant("acme").partition()));
    assert_eq!(ReservationId::parse(id.as_str()), Some(id.clone()));

    assert_ne!(id, of(&secret, "acme", "K"));
    assert_ne!(id, of(&secret, "acme2", "k"));
    assert_ne!(id, of(&DeploymentSecret::generate(), "acme", "k"));
    let post = PostId::derive(&secret, &tenant("acme"), &key("k"));
    assert_ne!(id.as_str()[1..], post.as_str()[1..]);
    assert_eq!(PostId::parse(post.as_str()), Some(post.clone()));
    assert_eq!(post.partition(), id.partition());
    let decision = DecisionId::derive(&secret, &tenant("acme"), &key("k"));
    assert_ne!(post.as_str()[1..], decision.as_str()[1..]);
}

#[test]
fn a_random_id_carries_its_partition() {
    let partition = Partition::new(0x05f).unwrap();
    macro_rules! check {
        ($id:ty, $start:literal, $chars:literal, $($other:literal)+) => {{
            let id = <$id>::mint(partition);
            assert!(id.as_str().starts_with($start) && id.as_str().len() == $chars, "{id}");
            assert_eq!(id.partition(), partition);
            assert_eq!(<$id>::parse(id.as_str()).as_ref(), Some(&id));
            assert_ne!(id, <$id>::mint(partition));
            for other in ["", $start, $($other),+] {
                assert_eq!(<$id>::parse(other), None, "{other}");
            }
        }};
    }
    check!(
        PolicyId, "pol_05f_", 20, "pol_400_abcdefghij12" "pol_05F_abcdefghij12" "pol_05f_ABCDEFGHIJ12"
        "pol_05f_abcdefghij123" "key_05f_abcdefghij12"
    );
    check!(
        KeyId, "key_05f_", 20, "key_05f_abcdefghij1" "key_400_abcdefghij12" "key_05f_abcdefghij1_" "rsv_05f_abcdefghij12"
    );
    check!(
        SubscriptionId, "whsub_05f_", 34, "whsub_400_0123456789abcdef01234567" "whsub_05f_0123456789ABCDEF01234567"
        "replay_05f_0123456789abcdef01234567" "bulk-action"
    );
    check!(
        ReplayId,
        "replay_05f_",
        35,
        "whsub_05f_0123456789abcdef01234567"
    );
}

#[test]
fn a_presented_reservation_id_may_be_any_text_but_names_a_partition_only_in_our_form() {
    for (text, names) in [
        ("r05f_x", true),
        ("r05f", false),
        ("rfff_x", false),
        ("e05f_x", false),
        ("r05Fx", false),
        ("räöü_", false),
        ("{tag}", false),
    ] {
        let partition = ReservationId::parse(text).unwrap().partition();
        assert_eq!(partition.is_some(), names, "{text}");
    }
    assert!(ReservationId::parse("").is_none());
    assert!(ReservationId::parse(&"é".repeat(128)).is_some());
    assert!(ReservationId::parse(&"x".repeat(129)).is_none());
}

#[test]
fn idempotency_keys_are_counted_in_characters() {
    assert!(IdempotencyKey::parse("").is_none());
    assert!(IdempotencyKey::parse(&"漢".repeat(256)).is_some());
    assert!(IdempotencyKey::parse(&"x".repeat(257)).is_none());
}

#[test]
fn the_secret_survives_its_stored_form_and_stays_out_of_debug() {
    let secret = DeploymentSecret::generate();
    let stored = secret.expose();
    assert_eq!(stored.len(), 43);
    assert_eq!(DeploymentSecret::parse(&stored).unwrap().expose(), stored);
    assert!(!format!("{secret:?}").contains(&stored));
    for text in [
        "",
        "AAAA",
        &format!("{stored}A"),
        &stored.replace(&stored[..1], "="),
    ] {
        assert!(DeploymentSecret::parse(text).is_none());
    }
}

#[test]
fn request_and_trace_ids() {
    let minted = RequestId::mint();
    assert_eq!(minted.as_str().len(), 36);
    assert_eq!(RequestId::parse(minted.as_str()), Some(minted));
    assert!(RequestId::parse("a:b-c.d_1").is_some());
    for text in ["", "a b", "a\r\nb", "é", "a/b", &"x".repeat(129)] {
        assert!(RequestId::parse(text).is_none(), "{text:?}");
    }
    let minted = TraceId::mint();
    assert_eq!(TraceId::parse(minted.as_str()), Some(minted));
    for text in [
        "",
        &"0".repeat(32),
        &"A".repeat(32),
        &"a".repeat(31),
        &"a".repeat(33),
        &"g".repeat(32),
    ] {
        assert!(TraceId::parse(text).is_none(), "{text}");
    }
}

#[test]
fn an_id_of_evidence_has_64_lower_case_digits_and_its_partition_in_the_first_ten_bits() {
    for (start, partition) in [("000", 0), ("003", 0), ("004", 1), ("fff", 1023)] {
        let text = format!("{start}{}", "0".repeat(61));
        let id = EvidenceId::parse(&text).expect("an id");
        assert_eq!((id.as_str(), id.partition().index()), (&*text, partition));
    }
    let upper = "A".repeat(64);
    let (short, long) = ("a".repeat(63), "a".repeat(65));
    for text in ["", &upper, &short, &long, &"é".repeat(32)] {
        assert_eq!(EvidenceId::parse(text), None, "{text}");
    }
}
