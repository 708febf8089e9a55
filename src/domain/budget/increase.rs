//! Temporary increases of a budget: how they are requested, stored and returned.

use std::fmt;

use crate::domain::amount::Amount;
use crate::domain::budget::turn::TimedIncrease;
use crate::domain::event::EventActor;
use crate::domain::fields::{Blank, Read as _, object, plain_field};
use crate::domain::ids::{IdempotencyKey, RandomPart, random_id};
use crate::domain::moment::Moment;
use crate::domain::period::Duration;
use crate::domain::record::stored_text;

/// Most increases of a budget at the same time.
pub const INCREASES_MAX: u32 = 8;

random_id! {
    /// Id of a temporary increase.
    IncreaseId: "inc", RandomPart::SHORT
}

object! {
    /// Raises what is allocated to a budget, for a time.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct BudgetIncreaseRequest: Read {
        /// By how much.
        pub amount: Amount,
        /// When it ends: within ten years. Either this or `for`.
        pub until: Option<Moment>,
        /// How long it lasts: an ISO 8601 duration of at most ten years, such as `P2D`. Either this or `until`.
        pub lasting: Option<Duration> { name: "for" },
        /// Reason, for the record.
        pub reason: String { chars: 1..=512, blank: Blank::Refused },
        /// Identifies this attempt: the same key increases once.
        pub idempotency_key: Option<IdempotencyKey>,
    }
    check |request, object| {
        if request.until.is_some() == request.lasting.is_some() {
            object.refuse_member("until", "exactly one of until and for must be given");
        }
    }
}

object! {
    /// A temporary increase of what is allocated to a budget.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct BudgetIncrease: Read + Serialize {
        /// Id of the increase.
        pub increase_id: String,
        /// By how much.
        pub amount: Amount,
        /// When it ends.
        pub until: Moment,
        /// Why it was made.
        pub reason: String,
        /// When it was made.
        pub created_at: Moment,
        /// The actor that made it.
        pub actor: EventActor { inline: true },
    }
}

/// The increases of a ledger that have not ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
#[serde(transparent)]
pub struct Increases(Vec<BudgetIncrease>);

plain_field!(Increases as Vec<BudgetIncrease>);

impl Increases {
    /// What a turn needs of them.
    pub fn timed(&self) -> Vec<TimedIncrease> {
        let timed = |increase: &BudgetIncrease| TimedIncrease {
            amount: increase.amount.value(),
            until_ms: increase.until.as_ms(),
        };
        self.0.iter().map(timed).collect()
    }

    /// Takes out those that have ended at a time in milliseconds since the epoch, in the order of their ends.
    pub fn ended(&mut self, now_ms: i64) -> Vec<BudgetIncrease> {
        let mut ended: Vec<_> = self
            .0
            .extract_if(.., |increase| increase.until.as_ms() <= now_ms)
            .collect();
        ended.sort_by_key(|increase| increase.until);
        ended
    }

    /// The end of the first one, in milliseconds since the epoch.
    pub fn first_end_ms(&self) -> Option<i64> {
        self.0.iter().map(|increase| increase.until.as_ms()).min()
    }

    /// The one of this id.
    pub fn find(&self, increase_id: &str) -> Option<&BudgetIncrease> {
        self.0.iter().find(|one| one.increase_id == increase_id)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads the lines that `lua/lib/ledger/increases.lua` has as well: id, amount, end in milliseconds, all of it in JSON.
    fn parse(text: &str) -> Option<Self> {
        let read = |line: &str| BudgetIncrease::parse_stored(line.splitn(4, ' ').nth(3)?);
        text.lines().map(read).collect::<Option<_>>().map(Self)
    }
}

impl fmt::Display for BudgetIncrease {
    /// A line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            increase_id,
            amount,
            until,
            ..
        } = self;
        let (amount, until_ms) = (amount.value(), until.as_ms());
        write!(f, "{increase_id} {amount} {until_ms} {}", self.to_json())
    }
}

impl fmt::Display for Increases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<_> = self.0.iter().map(BudgetIncrease::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

stored_text!(Increases, Increases::parse);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::amount::Unit;
    use crate::domain::event::EventActorType;
    use crate::domain::fields::read_body;
    use crate::domain::rows;

    fn increase(until_ms: i64) -> BudgetIncrease {
        BudgetIncrease {
            increase_id: format!("inc_{until_ms}"),
            amount: Amount::new(Unit::Tokens, 5).expect("an amount"),
            until: Moment::from_ms(until_ms).expect("a time"),
            reason: "two\nlines \"quoted\"".to_owned(),
            created_at: Moment::from_ms(1_000).expect("a time"),
            actor: EventActor {
                kind: EventActorType::Admin,
                key_id: None,
                source_ip: None,
            },
        }
    }

    #[test]
    fn stored_increases_read_back_and_leave_in_the_order_of_their_ends() {
        let all = Increases(vec![increase(9_000), increase(3_000), increase(2_000)]);
        let text = all.to_string();
        assert_eq!(text.lines().count(), 3);
        assert!(text.starts_with("inc_9000 5 9000 {"), "{text}");
        let mut read = Increases::parse(&text).expect("increases");
        assert_eq!(read, all);
        assert_eq!(read.first_end_ms(), Some(2_000));
        let ended: Vec<_> = read.ended(3_000);
        assert_eq!(ended, [increase(2_000), increase(3_000)]);
        assert_eq!(read, Increases(vec![increase(9_000)]));
        assert_eq!(Increases::parse("inc_1 5 9000"), None);
    }

    #[test]
    fn what_is_wrong_with_a_request_is_named() {
        for (members, wrong) in rows(
            r#""reason":"r" => until: exactly one of until and for must be given
            "reason":"r","for":"P1D","until":"2026-12-01T00:00:00Z" => until: exactly one of until and for must be given
            "reason":"r","for":"2 days" => for: must be a positive ISO 8601 duration of at most ten years
            "for":"P1D" => reason: is required
            "for":"P1D","reason":" " => reason: must not be blank"#,
        ) {
            let body = format!(r#"{{{members},"amount":{{"unit":"TOKENS","amount":50}}}}"#);
            let message = read_body::<BudgetIncreaseRequest>(&body).expect_err(members);
            assert!(message.contains(wrong), "{members}: {message}");
        }
    }
}
