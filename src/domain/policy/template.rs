//! Templates of budgets: what a scope gets that has no budget yet, when a request needs one.

use crate::domain::amount::{Amount, Unit};
use crate::domain::budget::ledger::{
    BudgetCreateRequest, Enforcement, RolloverPolicy, refuse_terms,
};
use crate::domain::budget::limit::{BudgetLimit, LIMITS_MAX, Windows};
use crate::domain::budget::period::BudgetPeriod;
use crate::domain::fields::{Object, Read as _, object};
use crate::domain::policy::OveragePolicy;
use crate::domain::record::stored_text;
use crate::domain::scope::ScopePath;

object! {
    /// The budget that a scope gets when a request needs one there.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct BudgetTemplate: Read + Serialize {
        /// Unit of all figures.
        pub unit: Unit,
        /// Allocated amount.
        pub allocated: Amount,
        /// How much debt is allowed.
        pub overdraft_limit: Option<Amount>,
        /// Overage policy of commits above their estimate. Absent: the tenant's setting applies.
        pub commit_overage_policy: Option<OveragePolicy>,
        /// What each period gets from the one before; has an effect only with `period`.
        pub rollover_policy: Option<RolloverPolicy> { default: RolloverPolicy::None },
        /// Renews the budget at the start of each period. Absent: it is never renewed.
        pub period: Option<BudgetPeriod>,
        /// Limits over windows of time, beside what is allocated.
        pub limits: Vec<BudgetLimit> { items: ..=LIMITS_MAX, default: Vec::new() },
        /// `OBSERVE`: the budget refuses nothing for want of funds, and reports what it would have refused.
        pub enforcement: Option<Enforcement> { default: Enforcement::Enforce },
    }
    check |template, object| {
        refuse_terms(&template.limits, template.period.as_ref(), template.rollover(), object);
        if let Some(member) = template.of_other_unit() {
            object.refuse_member(&member, format!("must count {}, as unit says", template.unit));
        }
    }
}

stored_text!(
    Vec<BudgetTemplate>,
    |text| Self::parse_stored(text),
    |templates| (!templates.is_empty()).then(|| templates.to_json())
);

/// Refuses the second template of a unit.
pub(super) fn refuse_repeated(templates: &[BudgetTemplate], object: &mut Object<'_>) {
    let is_repeated = |at: &usize| {
        let before = &templates[..*at];
        before.iter().any(|one| one.unit == templates[*at].unit)
    };
    if let Some(at) = (1..templates.len()).find(is_repeated) {
        let unit = templates[at].unit;
        let reason = format!("[{at}] is the second for {unit}; a unit has one template");
        object.refuse_member("budget_templates", reason);
    }
}

impl BudgetTemplate {
    fn rollover(&self) -> RolloverPolicy {
        self.rollover_policy.unwrap_or(RolloverPolicy::None)
    }

    /// The first member whose amount counts another unit than the template.
    fn of_other_unit(&self) -> Option<String> {
        let period = self.period.as_ref();
        let of_period = period.map_or([None, None], |it| [it.allocated, it.carry_limit]);
        let mut amounts = vec![
            ("allocated".to_owned(), Some(self.allocated)),
            ("overdraft_limit".to_owned(), self.overdraft_limit),
            ("period.allocated".to_owned(), of_period[0]),
            ("period.carry_limit".to_owned(), of_period[1]),
        ];
        let limits = self.limits.iter().enumerate();
        amounts
            .extend(limits.map(|(at, limit)| (format!("limits[{at}].amount"), Some(limit.amount))));
        let is_other =
            |(_, amount): &(_, Option<Amount>)| amount.is_some_and(|it| it.unit() != self.unit);
        amounts.into_iter().find(is_other).map(|(member, _)| member)
    }

    /// The request that creates this budget at a scope.
    pub fn creation(&self, scope: &ScopePath) -> BudgetCreateRequest {
        BudgetCreateRequest {
            tenant_id: None,
            scope: scope.to_string(),
            unit: self.unit,
            allocated: self.allocated,
            overdraft_limit: self.overdraft_limit,
            commit_overage_policy: self.commit_overage_policy,
            rollover_policy: self.rollover(),
            period: self.period.clone(),
            period_start: None,
            period_end: None,
            limits: self.limits.clone(),
            enforcement: self.enforcement,
            metadata: None,
        }
    }

    /// What a script needs to judge a request by a budget that does not exist yet, in words: allocated, overdraft limit, overage policy,
    /// whether it observes, and the limits at a time in milliseconds since the epoch, with `|` for their line ends.
    pub fn words(&self, now_ms: i64) -> String {
        format!(
            "{} {} {} {} {}",
            self.allocated.value(),
            self.overdraft_limit.map_or(0, Amount::value),
            self.commit_overage_policy
                .map_or("-", OveragePolicy::as_str),
            u8::from(self.enforcement == Some(Enforcement::Observe)),
            Windows::of(&self.limits, now_ms)
                .to_string()
                .replace('\n', "|"),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::fields::read_body;
    use crate::domain::rows;

    fn read(members: &str) -> Result<BudgetTemplate, String> {
        read_body(&format!(
            r#"{{"unit":"TOKENS","allocated":{{"unit":"TOKENS","amount":50}}{members}}}"#
        ))
    }

    #[test]
    fn what_is_wrong_with_a_template_is_named() {
        for (members, wrong) in rows(
            r#","overdraft_limit":{"unit":"CREDITS","amount":1} => overdraft_limit: must count TOKENS, as unit says
            ,"limits":[{"every":"PT1H","amount":{"unit":"CREDITS","amount":1}}] => limits[0].amount: must count TOKENS
            ,"period":{"every":"P1M","allocated":{"unit":"CREDITS","amount":1}} => period.allocated: must count TOKENS
            ,"period":{"every":"P1M","carry_limit":{"unit":"TOKENS","amount":1}} => period: carry_limit is allowed
            ,"scope":"tenant:acme" => scope"#,
        ) {
            let message = read(members).expect_err(members);
            assert!(message.contains(wrong), "{members}: {message}");
        }
    }

    #[test]
    fn stored_templates_read_back() {
        let templates = vec![
            read(r#","limits":[{"every":"PT1H","amount":{"unit":"TOKENS","amount":5}}]"#)
                .expect("a template"),
        ];
        let stored = crate::domain::record::Record::from_iter([("t", templates.to_json())]);
        assert_eq!(stored.read("t").as_ref(), Ok(&templates));
        let words = templates[0].words(1_774_738_800_005);
        let limit =
            "5 1774742400000|5 0 1774738800000 1774742400000 1774738800005 3600000 PT1H UTC -";
        assert_eq!(words, format!("50 0 - 0 {limit}"));
    }
}
