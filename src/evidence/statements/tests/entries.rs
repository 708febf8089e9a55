//! Entries of the queue.

use super::*;

fn entry(kind: EntryKind, digest: &str) -> Record {
    let fields = [
        ("kind", kind.as_str()),
        ("id", "rsv_5f_0001"),
        ("digest", digest),
    ];
    fields.into_iter().collect()
}

#[test]
fn an_entry_gives_the_same_envelope_as_its_record() {
    for (kind, record, direct) in [
        (
            EntryKind::Create,
            created(CREATE),
            create_of(&created(CREATE)),
        ),
        (
            EntryKind::End,
            committed(COMMIT),
            end_of(&committed(COMMIT)),
        ),
    ] {
        let digest = direct.statement.payload.request.as_ref().map(digest_of);
        let entry = entry(kind, digest.expect("a request").as_str());
        let attested = of_entry(&entry, &record).expect("an entry");
        assert_eq!(id_of(&attested), id_of(&direct));
        // Another request under the same id, as after the purge of the first.
        let other = entry.clone().with(
            "digest",
            digest_of(&Canonical::of_json(&Json::Null)).as_str(),
        );
        let fault = of_entry(&other, &record).expect_err("another request");
        assert_eq!(fault, EntryFault::AnotherRequest);
        // A record that is gone.
        let fault = of_entry(&entry, &Record::default()).expect_err("no record");
        assert!(matches!(fault, EntryFault::Damaged(_)), "{fault}");
    }
}

#[test]
fn e11_an_entry_without_a_record_has_everything() {
    let record = decided(&ALLOWED);
    let digest = digest_of(&Canonical::of_json(&parsed_json(
        record.text("request").expect("a request"),
    )));
    let fields = record
        .pairs()
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
    let entry: Record = fields.collect();
    let entry = entry
        .with("kind", "dry_run")
        .with("digest", digest.as_str());
    let attested = of_entry(&entry, &Record::default()).expect("an entry");
    let direct = of_outcome(OutcomeKind::DryRun, &record).expect("a record");
    assert_eq!(id_of(&attested), id_of(&direct.expect("inputs")));
}

#[test]
fn e02_an_entry_of_a_later_format_waits_for_a_later_release() {
    for inputs in [format!("4 3 {TRACE} z"), "4 something new".to_owned()] {
        let later = entry(EntryKind::Create, "x").with("inputs", inputs);
        let later = later.with("kind", "something new");
        assert_eq!(
            of_entry(&later, &Record::default()).err(),
            Some(EntryFault::UnknownFormat(4))
        );
    }
    for (kind, record, inputs) in [
        (EntryKind::Create, created(CREATE), "create_inputs"),
        (EntryKind::End, committed(COMMIT), "end_inputs"),
    ] {
        let later = record.clone().with(inputs, "4 something new");
        let fault = of_entry(&entry(kind, "x"), &later);
        assert_eq!(fault.err(), Some(EntryFault::UnknownFormat(4)));
        let damaged = record.with(inputs, "1");
        let fault = of_entry(&entry(kind, "x"), &damaged).expect_err("damage");
        assert_eq!(fault, EntryFault::Damaged(RecordError::of(inputs)));
    }
    for damaged in [
        entry(EntryKind::Create, "x").with("kind", "x"),
        entry(EntryKind::End, "x").with("id", ""),
    ] {
        let fault = of_entry(&damaged, &created(CREATE)).expect_err("damage");
        assert!(matches!(fault, EntryFault::Damaged(_)), "{fault}");
    }
}
