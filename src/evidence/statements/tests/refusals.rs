//! Refusals: what their envelopes say.

use super::*;
use crate::domain::amount::{Amount, Unit};
use crate::domain::ids::TenantId;
use crate::domain::refusal::{Refusal, TenantRefusal};
use crate::domain::scope::ScopePath;
use crate::evidence::statements::entry::signature_of;
use crate::store::runtime::target::RuntimeTarget;
use crate::store::signature::Refused;
use crate::store::target::Target as _;

fn entry(endpoint: Endpoint, reply: &str) -> Record {
    let format = if reply.contains('~') { 2 } else { 1 };
    let fields = [
        ("inputs", format!("{format} 3 {TRACE}")),
        ("at_ms", "1790000004567".to_owned()),
        ("request_id", "req_1".to_owned()),
        ("tenant", "acme".to_owned()),
        ("endpoint", endpoint.to_string()),
        ("request", request(endpoint).to_owned()),
        ("unit", "TOKENS".to_owned()),
        ("amount", "1800".to_owned()),
        ("reply", reply.replace(' ', "\n").replace('~', " ")),
    ];
    let entry: Record = fields.into_iter().collect();
    match endpoint {
        Endpoint::Decide | Endpoint::Reserve => entry.with("scope_path", "tenant:acme/app:chat"),
        Endpoint::Commit | Endpoint::Release => entry.with("reservation_id", "rsv_5f_0001"),
    }
}

fn request(endpoint: Endpoint) -> &'static str {
    match endpoint {
        Endpoint::Decide | Endpoint::Reserve => {
            r#"{"action":{"kind":"k","name":"n"},"estimate":{"amount":1800,"unit":"TOKENS"},"idempotency_key":"k","subject":{"app":"chat","tenant":"acme"}}"#
        }
        Endpoint::Commit => r#"{"actual":{"amount":1800,"unit":"TOKENS"},"idempotency_key":"k"}"#,
        Endpoint::Release => r#"{"idempotency_key":"k","reason":"r"}"#,
    }
}

fn endpoint(word: &str) -> Endpoint {
    match word {
        "decide" => Endpoint::Decide,
        "reserve" => Endpoint::Reserve,
        "commit" => Endpoint::Commit,
        _ => Endpoint::Release,
    }
}

/// Operation and reply of its script; status, code, message and details of the error.
const ROWS: &str = r#"
    reserve tenant_closed => 409 TENANT_CLOSED The tenant acme is closed; what it owns is read-only
    reserve denied BUDGET_EXCEEDED tenant:acme 7 => 409 BUDGET_EXCEEDED Insufficient remaining budget at tenant:acme: requested 1800 TOKENS, remaining 7 {"remaining":7,"requested":1800,"scope":"tenant:acme","unit":"TOKENS"}
    reserve denied BUDGET_FROZEN tenant:acme 7 => 409 BUDGET_FROZEN The budget is frozen at tenant:acme: requested 1800 TOKENS, remaining 7 {"remaining":7,"requested":1800,"scope":"tenant:acme","unit":"TOKENS"}
    reserve denied BUDGET_CLOSED tenant:acme 7 => 409 BUDGET_CLOSED The budget is closed at tenant:acme: requested 1800 TOKENS, remaining 7 {"remaining":7,"requested":1800,"scope":"tenant:acme","unit":"TOKENS"}
    reserve denied DEBT_OUTSTANDING tenant:acme -7 => 409 DEBT_OUTSTANDING The budget has outstanding debt at tenant:acme: requested 1800 TOKENS, remaining -7; it refuses reservations until an operator repays the debt (REPAY_DEBT) {"remaining":-7,"requested":1800,"scope":"tenant:acme","unit":"TOKENS"}
    reserve denied OVERDRAFT_LIMIT_EXCEEDED tenant:acme -7 => 409 OVERDRAFT_LIMIT_EXCEEDED The overdraft limit is exceeded at tenant:acme: requested 1800 TOKENS, remaining -7; it refuses reservations until an operator funds it (REPAY_DEBT where it has debt, else CREDIT) {"remaining":-7,"requested":1800,"scope":"tenant:acme","unit":"TOKENS"}
    reserve over_limit tenant:acme -7 rsv_1 => 409 OVERDRAFT_LIMIT_EXCEEDED The overdraft limit is exceeded at tenant:acme: requested 1800 TOKENS, remaining -7; it is over its limit since the commit of reservation rsv_1; it refuses reservations until an operator funds it (REPAY_DEBT where it has debt, else CREDIT) {"remaining":-7,"requested":1800,"scope":"tenant:acme","unit":"TOKENS"}
    reserve over_limit tenant:acme -7 evt_1 => 409 OVERDRAFT_LIMIT_EXCEEDED The overdraft limit is exceeded at tenant:acme: requested 1800 TOKENS, remaining -7; it is over its limit since the usage event evt_1; it refuses reservations until an operator funds it (REPAY_DEBT where it has debt, else CREDIT) {"remaining":-7,"requested":1800,"scope":"tenant:acme","unit":"TOKENS"}
    reserve unit_mismatch tenant:acme CREDITS => 400 UNIT_MISMATCH Unit mismatch at tenant:acme: requested TOKENS, available CREDITS {"expected_units":["CREDITS"],"requested_unit":"TOKENS","scope":"tenant:acme"}
    decide unit_mismatch tenant:acme CREDITS => 400 UNIT_MISMATCH Unit mismatch at tenant:acme: requested TOKENS, available CREDITS {"expected_units":["CREDITS"],"requested_unit":"TOKENS","scope":"tenant:acme"}
    commit tenant_closed => 409 TENANT_CLOSED The tenant acme is closed; what it owns is read-only
    commit expired => 410 RESERVATION_EXPIRED The reservation rsv_5f_0001 has expired
    commit finalized RELEASED => 409 RESERVATION_FINALIZED The reservation rsv_5f_0001 is already RELEASED
    commit unit_mismatch tenant:acme CREDITS => 400 UNIT_MISMATCH Unit mismatch at tenant:acme: requested TOKENS, available CREDITS {"expected_units":["CREDITS"],"requested_unit":"TOKENS","scope":"tenant:acme"}
    commit overage_rejected tenant:acme 1500 => 409 BUDGET_EXCEEDED 1800 TOKENS exceeds the 1500 reserved at tenant:acme, and the policy is REJECT {"requested":1800,"reserved":1500,"scope":"tenant:acme","unit":"TOKENS"}
    commit denied OVERDRAFT_LIMIT_EXCEEDED tenant:acme -7 => 409 OVERDRAFT_LIMIT_EXCEEDED The overdraft limit is exceeded at tenant:acme: requested 1800 TOKENS, remaining -7; it refuses reservations until an operator funds it (REPAY_DEBT where it has debt, else CREDIT) {"remaining":-7,"requested":1800,"scope":"tenant:acme","unit":"TOKENS"}
    commit denied BUDGET_EXCEEDED tenant:acme 7 => 409 BUDGET_EXCEEDED Insufficient remaining budget at tenant:acme: requested 1800 TOKENS, remaining 7 {"remaining":7,"requested":1800,"scope":"tenant:acme","unit":"TOKENS"}
    release tenant_closed => 409 TENANT_CLOSED The tenant acme is closed; what it owns is read-only
    release expired => 410 RESERVATION_EXPIRED The reservation rsv_5f_0001 has expired
    release finalized COMMITTED => 409 RESERVATION_FINALIZED The reservation rsv_5f_0001 is already COMMITTED
"#;

/// Of each row.
const GOLDEN: [&str; 20] = [
    "248129d6a79e4759c99d1c55402471cb1cc42227285b053c8a25569edc52b439",
    "7bd5028831cc1189e69b059015c083d12d1a687e153ab6601bfd022da59d8b41",
    "3912ee1a92ae0d08a86654ba0d195f1d50117a30a05e94fe90df4af26449485b",
    "92d66c063857fdb59052859d4f5fa00791cdf58af3b5ab9c62e78ebe69bae41d",
    "a9d3ad15486fb50270800dcdbd07c1b818eaef90219f044d92f0e1264849ce34",
    "b42144b871f77df24e550a28b8d64747eb64671f92149382db53a984f94167a7",
    "9b5cc3786066d2c9c5eb7f81676cfb5e97ceff4f85d1ff3c81914f6202ff3f1e",
    "6ee747b9818891099606fabe9a0da59e30a82a2d474184911ece34359f9abece",
    "502f6541831cfd4aa90c04048c017e943aca7b0b56ddc83be664a3cdc6552fc2",
    "456d9144ae4e6497197a75cd88a9d5650afe029470402172cc12385735181f40",
    "9d799dfae322d87dfa430b893dd1ebd696f993afb1b9032f4909faaa1d9d7c43",
    "0d7dedf9988758443cd93c785d1089fc3394713850f57b8c534020a6c897caf7",
    "11abe69421160b1b1ab911feb24f6338e4f5540db392ed9e4e7af04f5b26aab3",
    "98d406ab6c621fc98ae9f3444e07e06b7a550f818d2e788fba22833d572ba52c",
    "5f94c5b9a3fe4148e559197d959473e3f51fa248923ac131a9be6de5d5475733",
    "cc40c33c3ac08bdaade63497c4dd8d0d09702f5d160e4b11e3aa679c6e7f3b29",
    "393eb8aad4c13584e21c0780fb73b045184ed4b59d42af14517eb3248c65e66d",
    "7524a02cab84ac1abf9f452db0d165d10bf009f64f83f25ac0354b91ef29e50f",
    "2cd90b7c98489229d1d44e60de704d3941516d7d774b77e10283f4e57b745126",
    "d1765d853c3f88cebfb40a8e453d3132dd34e0d5099f180db44c04c869b71609",
];

/// The same with the figures of the ledger, whose blanks are `~` here.
const ROWS_WITH_FIGURES: &str = r#"
    reserve denied BUDGET_EXCEEDED tenant:acme 7 5000~3000~1993 1790000065004 => 409 BUDGET_EXCEEDED Insufficient remaining budget at tenant:acme: requested 1800 TOKENS, remaining 7 {"allocated":5000,"debt":0,"holds_expire_by":"2026-09-21T14:14:25.004Z","remaining":7,"requested":1800,"reserved":1993,"scope":"tenant:acme","spent":3000,"unit":"TOKENS"}
    reserve denied BUDGET_EXCEEDED tenant:acme 7 5000~4973~0~20~100~0 1790000065004 => 409 BUDGET_EXCEEDED Insufficient remaining budget at tenant:acme: requested 1800 TOKENS, remaining 7 {"allocated":5000,"debt":20,"remaining":7,"requested":1800,"reserved":0,"scope":"tenant:acme","spent":4973,"unit":"TOKENS"}
"#;

const GOLDEN_WITH_FIGURES: [&str; 2] = [
    "1d9beaf239df85504976eb0c14cbcec37b11ac8ad3c5e5780c5cb50b124688b5",
    "d2b672557cde72e030afee19b4043ac9d4df7c8e9998b53e78b8f1436f99e2e5",
];

/// Frozen: message and details are signed, so that another text takes another format.
#[test]
fn e02_the_refusals_of_format_1_never_change() {
    assert_eq!(ids_of(ROWS), GOLDEN);
}

#[test]
fn e02_the_refusals_of_format_2_never_change() {
    assert_eq!(ids_of(ROWS_WITH_FIGURES), GOLDEN_WITH_FIGURES);
}

/// The ids of the envelopes of rows, after a check of what is reported.
fn ids_of(rows: &str) -> Vec<String> {
    let mut ids = Vec::new();
    for (called, reported) in crate::domain::rows(rows) {
        let (word, reply) = called.split_once(' ').expect("an operation");
        let attested = of_refusal(&entry(endpoint(word), reply)).expect(called);
        let payload = &attested.statement.payload;
        let http_status = payload.refused.expect("a refusal");
        let response = parsed_json(payload.response.as_str());
        let text = |name| response.member(name).and_then(Json::as_text);
        let [code, message] = ["error", "message"].map(|name| text(name).expect(called));
        let mut got = format!("{http_status} {code} {message}");
        if let Some(details) = response.member("details") {
            got += &format!(" {}", details.rfc8785());
        }
        assert_eq!(got, reported, "{called}");
        ids.push(id_of(&attested));
    }
    ids
}

/// A refusal that its script gains takes a row.
#[test]
fn every_refusal_of_the_scripts_has_a_row() {
    let id = reservation();
    let scope_path = ScopePath::parse("tenant:acme").expect("a scope");
    let amount = Amount::new(Unit::Tokens, 1).expect("an amount");
    for word in ["decide", "reserve", "commit", "release"] {
        let endpoint = endpoint(word);
        let target = match endpoint {
            Endpoint::Decide | Endpoint::Reserve => RuntimeTarget::scope(&scope_path, amount),
            Endpoint::Commit => RuntimeTarget {
                amount: Some(amount),
                ..RuntimeTarget::reservation(&id)
            },
            Endpoint::Release => RuntimeTarget::reservation(&id),
        };
        for refused in Refused::samples(signature_of(endpoint)) {
            let row = format!("{word} {} ", refused.word());
            let refusal: Option<Refusal> = match refused {
                Refused::TenantClosed => {
                    Some(TenantRefusal::Closed(TenantId::parse("acme").expect("a tenant")).into())
                }
                refused => target.refusal(&refused),
            };
            if refusal.is_some_and(|refusal| refusal.evaluated().is_some()) {
                let mut rows = ROWS.lines().map(str::trim);
                assert!(rows.any(|line| line.starts_with(&row)), "{row}");
            }
        }
    }
}

/// Its digest is not kept either.
#[test]
fn e12_an_error_without_its_request_has_bytes_of_its_own() {
    let entry = entry(Endpoint::Release, "finalized COMMITTED");
    let fields = entry.pairs().filter(|(name, _)| *name != "request");
    let attested = of_refusal(&fields.collect()).expect("an entry");
    assert_eq!(attested.statement.payload.request, None);
    assert_eq!(id_of(&attested), WITHOUT_REQUEST);
}

const WITHOUT_REQUEST: &str = "db09464edb95d74b2963b75c5a584a7585f99fc1e1ef3751e712994ffbe33eaa";

#[test]
fn other_refusals_are_not_attested() {
    for reply in [
        "not_found",
        "budget_not_found",
        "idempotency_mismatch",
        "reserved 1 2",
        "expired",
        "denied BUDGET_EXCEEDED",
    ] {
        let refused = of_refusal(&entry(Endpoint::Reserve, reply)).expect_err(reply);
        assert_eq!(refused.field, "reply", "{reply}");
    }
}
