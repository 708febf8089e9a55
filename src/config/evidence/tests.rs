use clap::{Command, FromArgMatches};

use super::*;
use crate::evidence::Registered;

const SEED: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
const PUBLIC: &str = "03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8";
const SERVER: &str = "--evidence-server-id=https://a.example/v1";

#[derive(Debug, Args)]
struct Both {
    #[command(flatten)]
    evidence: EvidenceArgs,
    #[command(flatten)]
    seeds: EvidenceSeedArgs,
    #[command(flatten)]
    retention: RetentionConfig,
}

/// What the API and a dispatcher make of these flags.
fn configs(
    flags: &[&str],
) -> (
    Result<Option<EvidenceConfig>, String>,
    Result<Option<SigningConfig>, String>,
) {
    let command = Both::augment_args(Command::new("x").no_binary_name(true));
    let command = command.mut_args(|arg| arg.env(clap::builder::Resettable::Reset));
    let matches = command.try_get_matches_from(flags).expect("known flags");
    let both = Both::from_arg_matches(&matches).expect("flags");
    let evidence = both.evidence.into_config(Dialect::Service, &both.retention);
    let signing = match &evidence {
        Ok(evidence) => both.seeds.into_config(evidence.clone()),
        Err(_) => Ok(None),
    };
    (
        evidence.map_err(|error| error.to_string()),
        signing.map_err(|error| error.to_string()),
    )
}

fn key_flags(seed: &str) -> [String; 3] {
    [
        SERVER.to_owned(),
        format!("--evidence-public-key={PUBLIC}"),
        format!("--evidence-seeds={seed}"),
    ]
}

fn public(seed: char) -> String {
    let seed = seed.to_string().repeat(64);
    SigningKey::parse(&seed).expect("a seed").public().hex()
}

#[test]
fn e18_evidence_is_off_by_default() {
    let (evidence, signing) = configs(&[]);
    assert_eq!(evidence, Ok(None));
    assert!(signing.is_ok_and(|signing| signing.is_none()));
    let empty = [
        "--evidence-server-id=",
        "--evidence-keys=",
        "--evidence-seeds=",
    ];
    assert_eq!(configs(&empty).0, Ok(None), "an empty setting is none");
}

#[test]
fn e21_the_first_key_needs_a_start_time() {
    let [server, key, seed] = key_flags(SEED);
    let (refused, _) = configs(&[&server, &key]);
    assert!(refused.is_err_and(|why| why.starts_with("BUDGET_EVIDENCE_NBF_MS: ")));
    let flags = [&server, &key, &seed, "--evidence-nbf-ms=5"];
    let (evidence, signing) = configs(&flags);
    let evidence = evidence.expect("settings").expect("evidence");
    assert_eq!(evidence.retention, Some(Duration::from_secs(30 * 86_400)));
    let listed = &evidence.issuers.key_set().keys[0];
    assert_eq!(
        (listed.kid.as_str(), listed.from_ms),
        ("03a107bff3ce10be", 5)
    );
    let signing = signing.expect("settings").expect("evidence");
    let registered = registered(&signing.evidence, listed);
    let key = key_of(&signing, &registered).map(SigningKey::public);
    assert_eq!(key, Some(listed.key));
}

/// The key pair of a registered key.
fn key_of<'a>(signing: &'a SigningConfig, registered: &Registered) -> Option<&'a SigningKey> {
    registered.key_of(&signing.evidence.issuers, &signing.keys)
}

/// A key as it is registered.
fn registered(evidence: &EvidenceConfig, listed: &ListedKey) -> Registered {
    Registered {
        number: 1,
        issuer: evidence.issuers.issuer(listed),
        from_ms: listed.from_ms,
        until_ms: listed.until_ms,
    }
}

#[test]
fn e20_only_the_key_of_a_former_server_id_signs_for_it() {
    let [server, key, seed] = key_flags(SEED);
    for form in ["did", "raw"] {
        let form = format!("--evidence-signer={form}");
        let flags = [&server, &key, &seed, &form, "--evidence-nbf-ms=5"];
        let former = configs(&flags).0.expect("settings").expect("evidence");
        let former = registered(&former, &former.issuers.key_set().keys[0]);
        let flags = [
            "--evidence-server-id=https://b.example/v1",
            &key,
            &seed,
            "--evidence-nbf-ms=5",
        ];
        let signing = configs(&flags).1.expect("settings").expect("evidence");
        let key = key_of(&signing, &former).map(|key| key.public().hex());
        assert_eq!(key.as_deref(), Some(PUBLIC), "{form}");
        let other = Registered {
            from_ms: 6,
            ..former
        };
        assert_eq!(key_of(&signing, &other).is_some(), form.ends_with("raw"));
    }
}

#[test]
fn e22_an_incomplete_configuration_names_the_missing_setting() {
    let [server, key, seed] = key_flags(SEED);
    let (key, seed, nbf) = (key.as_str(), seed.as_str(), "--evidence-nbf-ms=0");
    let unnameable = format!(
        r#"--evidence-keys=[{{"public_key":"{}","kid":"k k","nbf_ms":0}}]"#,
        public('b')
    );
    for (flags, names) in [
        (
            &[server.as_str()][..],
            "BUDGET_EVIDENCE_PUBLIC_KEY BUDGET_EVIDENCE_SERVER_ID",
        ),
        (&[key, nbf], "BUDGET_EVIDENCE_SERVER_ID"),
        (&[nbf], "BUDGET_EVIDENCE_PUBLIC_KEY BUDGET_EVIDENCE_NBF_MS"),
        (
            &["--evidence-server-id=https://a.example", key, nbf],
            "BUDGET_EVIDENCE_SERVER_ID /v1",
        ),
        (
            &[&server, "--evidence-public-key=03A1", nbf],
            "BUDGET_EVIDENCE_PUBLIC_KEY 64",
        ),
        (
            &[&server, key, "--evidence-nbf-ms=-1"],
            "BUDGET_EVIDENCE_PUBLIC_KEY 1970",
        ),
        (
            &[&server, key, nbf, "--evidence-exp-ms=0"],
            "BUDGET_EVIDENCE_KEYS ends before",
        ),
        (
            &[&server, key, nbf, &unnameable],
            "BUDGET_EVIDENCE_KEYS characters",
        ),
        (
            &[&server, key, nbf, "--evidence-keys=[{}]"],
            "BUDGET_EVIDENCE_KEYS entry",
        ),
        (
            &[&server, key, nbf, "--evidence-keys={}"],
            "BUDGET_EVIDENCE_KEYS array",
        ),
        (
            &[&server, "--evidence-keys=[{\"exp\":1}]"],
            "BUDGET_EVIDENCE_KEYS `exp`",
        ),
        (
            &["--evidence-keys=[]", "--evidence-keys-file=/x"],
            "BUDGET_EVIDENCE_KEYS BUDGET_EVIDENCE_KEYS_FILE",
        ),
        (
            &["--evidence-keys-file=/missing"],
            "BUDGET_EVIDENCE_KEYS_FILE /missing",
        ),
        (
            &[&server, key, nbf, "--evidence-retention-days=29"],
            "BUDGET_EVIDENCE_RETENTION_DAYS BUDGET_RESERVATION_RETENTION_DAYS",
        ),
    ] {
        let message = configs(flags).0.expect_err("half a configuration");
        for name in names.split(' ') {
            assert!(message.contains(name), "{flags:?}: {message}");
        }
    }
    let (own, [_, _, other]) = (seed, key_flags(&"1".repeat(64)));
    for (flags, names) in [
        (&[own][..], "BUDGET_EVIDENCE_SERVER_ID"),
        (
            &[&server, key, nbf],
            "BUDGET_EVIDENCE_SEEDS 03a107bff3ce10be",
        ),
        (
            &[&server, key, nbf, &other],
            "BUDGET_EVIDENCE_SEEDS not configured",
        ),
        (
            &[&server, key, nbf, "--evidence-seeds=swordfish"],
            "BUDGET_EVIDENCE_SEEDS seed 1",
        ),
        (
            &[&server, key, nbf, "--evidence-seeds-file=/missing"],
            "BUDGET_EVIDENCE_SEEDS_FILE",
        ),
    ] {
        let message = configs(flags).1.expect_err("half a configuration");
        assert!(!message.contains("swordfish"), "{message}");
        for name in names.split(' ') {
            assert!(message.contains(name), "{flags:?}: {message}");
        }
    }
}

#[test]
fn a_listed_key_with_a_member_twice_is_refused() {
    let keys = format!(r#"[{{"public_key":"{PUBLIC}","nbf_ms":0,"nbf_ms":5}}]"#);
    let refusal = listed_keys(&keys).expect_err("a member twice");
    let names_it = refusal.starts_with("entry 1: duplicate field `nbf_ms`");
    assert!(names_it, "{refusal}");
}

#[test]
fn a_listed_key_that_is_no_object_is_refused_with_an_example() {
    let object = format!(r#"{{"public_key":"{PUBLIC}","nbf_ms":0}}"#);
    for other in [
        &format!(r#"["{PUBLIC}",null,0,null]"#),
        "null",
        "\"03a1\"",
        "5",
    ] {
        let refusal = listed_keys(&format!("[{object}, {other}]")).expect_err(other);
        let names_it = refusal.starts_with(r#"entry 2: write an object such as {"public_key":"#);
        assert!(names_it, "{refusal}");
    }
    assert_eq!(
        listed_keys(&format!("[ {object} ]")).map(|keys| keys.len()),
        Ok(1)
    );
}

#[test]
fn e20_retired_and_future_keys_are_configured_with_the_present_one() {
    let (old, new) = (public('1'), public('2'));
    let far = TIME_FAR;
    let keys = format!(
        r#"--evidence-keys=[{{"public_key":"{old}","kid":"old","nbf_ms":0,"exp_ms":5}},{{"public_key":"{new}","nbf_ms":{far}}}]"#
    );
    let [server, key, _] = key_flags(SEED);
    let own = [&server, &key, "--evidence-nbf-ms=5"];
    let until = format!("--evidence-exp-ms={far}");
    let seeds = format!("--evidence-seeds={SEED}, {}", "2".repeat(64));
    let flags: Vec<&str> = own
        .iter()
        .copied()
        .chain([&*until, &keys, &seeds])
        .collect();
    let (evidence, signing) = configs(&flags);
    let evidence = evidence.expect("settings").expect("evidence");
    let kids = evidence.issuers.key_set().keys.iter();
    let kids: Vec<_> = kids.map(|listed| listed.kid.clone()).collect();
    assert_eq!(kids, ["old", "03a107bff3ce10be", &new[..16]]);
    // The seed of a key whose time is over is not needed.
    let signing = signing.expect("settings").expect("evidence");
    let old = &evidence.issuers.key_set().keys[0];
    assert!(key_of(&signing, &registered(&evidence, old)).is_none());
    assert!(!format!("{signing:?} {flags:?}", flags = own).contains("00010203"));
}

/// In the year 9000.
const TIME_FAR: i64 = 221_845_392_000_000;

#[test]
fn e18_only_retired_keys_need_no_seed() {
    let [server, key, _] = key_flags(SEED);
    let flags = [&server, &key, "--evidence-nbf-ms=0", "--evidence-exp-ms=9"];
    let (evidence, signing) = configs(&flags);
    assert!(evidence.is_ok_and(|evidence| evidence.is_some()));
    assert!(signing.is_ok_and(|signing| signing.is_some()));
}

#[test]
fn e28_evidence_is_kept_at_least_as_long_as_records() {
    let [server, key, _] = key_flags(SEED);
    let own = [server.as_str(), &key, "--evidence-nbf-ms=0"];
    let with = |flag| own.iter().copied().chain([flag]).collect::<Vec<_>>();
    let for_ever = configs(&with("--evidence-retention-days=0")).0;
    assert_eq!(
        for_ever.map(|one| one.map(|one| one.retention)),
        Ok(Some(None))
    );
    let shorter = configs(&with("--reservation-retention-days=31")).0;
    assert!(shorter.is_err());
}
