//! What the canonical form and the reader can hold.

use super::*;

#[test]
fn numbers_that_the_canonical_form_would_round_are_refused() {
    // Another text of the same double as 9007199254740992.
    let document = raw().replace("[12,", "[9007199254740993,");
    let found = verify(document.as_bytes(), Keys::Absent, None, None);
    assert_eq!(found.disposition, SignatureInvalid);
    assert!(
        found.reason.contains("9007199254740993"),
        "{}",
        found.reason
    );
}

#[test]
fn e08_an_envelope_nests_as_deep_as_a_request_may_and_no_deeper() {
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let found = |levels| {
        let document = raw().replace("[12,null,true]", &nested(levels));
        verify(document.as_bytes(), Keys::Absent, None, None).reason
    };
    // Five objects are around it.
    assert!(
        found(DEPTH_MAX - 5).contains("evidence_id"),
        "{}",
        found(DEPTH_MAX - 5)
    );
    assert!(
        found(DEPTH_MAX - 4).contains("nested deeper than 72"),
        "{}",
        found(DEPTH_MAX - 4)
    );
}
