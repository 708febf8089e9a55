//! The payloads, one shape per kind of event.

use serde_json::value::RawValue;

use super::members::{Member, Members};
use crate::domain::record::{Record, RecordError};

/// Facts are read under `data.`, and each shape says which it needs.
struct Facts<'a>(&'a Record);

/// The payload of an event of this type.
pub(super) fn of(event_type: &str, tenant: &str, facts: &Record) -> Result<Members, RecordError> {
    let facts = Facts(facts);
    match event_type {
        "budget.created" | "budget.funded" | "budget.debited" | "budget.reset"
        | "budget.reset_spent" | "budget.debt_repaid" | "budget.updated" | "budget.frozen"
        | "budget.unfrozen" => facts.budget_lifecycle(),
        "budget.threshold_crossed" | "budget.exhausted" => facts.threshold(),
        "budget.over_limit_entered" | "budget.over_limit_exited" => facts.over_limit(),
        "budget.debt_incurred" => facts.debt_incurred(),
        "reservation.denied" => facts.denied(),
        "reservation.commit_overage" => facts.commit_overage(),
        "reservation.expired" => facts.expired(),
        "policy.created" | "policy.updated" => facts.policy(),
        "tenant.created"
        | "tenant.updated"
        | "tenant.settings_changed"
        | "tenant.suspended"
        | "tenant.reactivated"
        | "tenant.closed" => facts.tenant(tenant),
        "budget.closed_via_tenant_cascade"
        | "reservation.released_via_tenant_cascade"
        | "webhook.disabled_via_tenant_cascade"
        | "api_key.revoked_via_tenant_cascade" => facts.cascade(),
        "api_key.created"
        | "api_key.revoked"
        | "api_key.expired"
        | "api_key.permissions_changed" => facts.api_key(),
        "api_key.auth_failed" => facts.auth_failed(),
        "webhook.created" | "webhook.updated" | "webhook.paused" | "webhook.resumed"
        | "webhook.disabled" | "webhook.deleted" => facts.webhook(tenant),
        _ => Err(RecordError::of("type")),
    }
}

impl Facts<'_> {
    fn budget_lifecycle(&self) -> Result<Members, RecordError> {
        let mut data = Members(Vec::new());
        data.text("ledger_id", self.text("ledger_id")?);
        self.push_place(&mut data)?;
        data.text("operation", self.text("operation")?);
        for (name, marker) in [
            ("previous_state", "previous_state.allocated"),
            ("new_state", "new_state.allocated"),
        ] {
            if self.get(marker).is_some() {
                data.push(name, Member::Object(self.state(name)?));
            }
        }
        if self.get("spent_override_provided").is_some() {
            data.push(
                "spent_override_provided",
                self.flag("spent_override_provided")?,
            );
        }
        self.push_optional_text(&mut data, "reason");
        Ok(data)
    }

    fn state(&self, state: &str) -> Result<Members, RecordError> {
        let mut members = Members(Vec::new());
        for figure in ["allocated", "remaining", "debt", "spent", "reserved"] {
            members.push(figure, self.integer(&format!("{state}.{figure}"))?);
        }
        members.text("status", self.text(&format!("{state}.status"))?);
        Ok(members)
    }

    fn threshold(&self) -> Result<Members, RecordError> {
        let mut data = Members(Vec::new());
        self.push_place(&mut data)?;
        let millionths = self.figure("threshold_millionths")?;
        data.push("threshold", Member::Number(millionths as f64 / 1e6));
        let allocated = self.figure("allocated")?;
        let used = i128::from(self.figure("spent")?) + i128::from(self.figure("reserved")?);
        if allocated > 0 {
            data.push(
                "utilization",
                Member::Number(used as f64 / allocated as f64),
            );
        }
        for figure in ["allocated", "remaining", "spent", "reserved"] {
            data.push(figure, self.integer(figure)?);
        }
        data.text("direction", self.text("direction")?);
        Ok(data)
    }

    fn over_limit(&self) -> Result<Members, RecordError> {
        let mut data = Members(Vec::new());
        self.push_place(&mut data)?;
        let (debt, limit) = (self.figure("debt")?, self.figure("overdraft_limit")?);
        data.push("debt", Member::Integer(debt));
        data.push("overdraft_limit", Member::Integer(limit));
        data.push("is_over_limit", self.flag("is_over_limit")?);
        if limit > 0 {
            data.push(
                "debt_utilization",
                Member::Number(debt as f64 / limit as f64),
            );
        }
        Ok(data)
    }

    fn debt_incurred(&self) -> Result<Members, RecordError> {
        let mut data = Members(Vec::new());
        self.push_place(&mut data)?;
        self.push_optional_text(&mut data, "reservation_id");
        for figure in ["debt_incurred", "total_debt", "overdraft_limit"] {
            data.push(figure, self.integer(figure)?);
        }
        data.text("overage_policy", self.text("overage_policy")?);
        Ok(data)
    }

    fn denied(&self) -> Result<Members, RecordError> {
        let mut data = Members(Vec::new());
        self.push_place(&mut data)?;
        data.text("reason_code", self.text("reason_code")?);
        data.push("requested_amount", self.integer("requested_amount")?);
        if self.get("remaining").is_some() {
            data.push("remaining", self.integer("remaining")?);
        }
        let mut action = Members(Vec::new());
        action.text("kind", self.text("action_kind")?);
        action.text("name", self.text("action_name")?);
        if let Some(tags) = self.get("action_tags") {
            action.push("tags", raw(tags, "action_tags")?);
        }
        data.push("action", Member::Object(action));
        data.push("subject", self.subject()?);
        self.push_optional_text(&mut data, "policy_id");
        if let Some(scope) = self.get("blocked_by_scope") {
            let detail = ("blocked_by_scope", Member::Text(scope.to_owned()));
            data.push("deny_detail", Member::Object(Members(vec![detail])));
        }
        Ok(data)
    }

    /// The subject as it was sent, or from the scope path where that is the same.
    fn subject(&self) -> Result<Member, RecordError> {
        if let Some(subject) = self.get("subject") {
            return raw(subject, "subject");
        }
        const LEVELS: [&str; 6] = ["tenant", "workspace", "app", "workflow", "agent", "toolset"];
        let mut subject = Members(Vec::new());
        for segment in self.scope()?.split('/') {
            let level = segment.split_once(':').and_then(|(level, value)| {
                let level = LEVELS.into_iter().find(|known| *known == level)?;
                Some((level, value))
            });
            let (level, value) = level.ok_or_else(|| RecordError::of("scope"))?;
            subject.text(level, value);
        }
        Ok(Member::Object(subject))
    }

    fn commit_overage(&self) -> Result<Members, RecordError> {
        let mut data = Members(Vec::new());
        data.text("reservation_id", self.text("reservation_id")?);
        self.push_place(&mut data)?;
        for figure in ["estimated_amount", "actual_amount", "overage"] {
            data.push(figure, self.integer(figure)?);
        }
        data.text("overage_policy", self.text("overage_policy")?);
        data.push("debt_incurred", self.integer("debt_incurred")?);
        Ok(data)
    }

    fn expired(&self) -> Result<Members, RecordError> {
        let mut data = Members(Vec::new());
        data.text("reservation_id", self.text("reservation_id")?);
        self.push_place(&mut data)?;
        data.push("estimated_amount", self.integer("estimated_amount")?);
        let created = self
            .0
            .read::<crate::domain::moment::Moment>("data.created_at_ms")?;
        let expired = self
            .0
            .read::<crate::domain::moment::Moment>("data.expires_at_ms")?;
        data.text("created_at", &created.to_string());
        data.text("expired_at", &expired.to_string());
        let ttl_ms = expired.as_ms() - created.as_ms();
        data.push("ttl_ms", Member::Integer(ttl_ms));
        data.push("extensions_used", self.integer("extensions_used")?);
        Ok(data)
    }

    fn tenant(&self, tenant: &str) -> Result<Members, RecordError> {
        let mut data = Members(Vec::new());
        data.text("tenant_id", tenant);
        self.push_optional_text(&mut data, "previous_status");
        self.push_optional_text(&mut data, "new_status");
        data.push("changed_fields", self.words("changed_fields")?);
        Ok(data)
    }

    fn policy(&self) -> Result<Members, RecordError> {
        let mut data = Members(Vec::new());
        for name in ["policy_id", "name", "scope_pattern"] {
            data.text(name, self.text(name)?);
        }
        data.push("changed_fields", self.words("changed_fields")?);
        Ok(data)
    }

    /// What a tenant's close did to one thing that it owned.
    fn cascade(&self) -> Result<Members, RecordError> {
        let mut data = Members(Vec::new());
        for name in ["ledger_id", "subscription_id", "key_id", "name"] {
            self.push_optional_text(&mut data, name);
        }
        if self.get("ledger_id").is_some() {
            self.push_place(&mut data)?;
        }
        data.text("prior_status", self.text("prior_status")?);
        self.push_optional_text(&mut data, "new_status");
        for figure in ["released_amount", "released_reserved_amount"] {
            if self.get(figure).is_some() {
                data.push(figure, self.integer(figure)?);
            }
        }
        data.text("cascade_reason", "tenant_closed");
        Ok(data)
    }

    fn api_key(&self) -> Result<Members, RecordError> {
        let mut data = Members(Vec::new());
        data.text("key_id", self.text("key_id")?);
        for name in ["key_name", "previous_status", "new_status"] {
            self.push_optional_text(&mut data, name);
        }
        if self.get("permissions").is_some() {
            data.push("permissions", self.words("permissions")?);
        }
        Ok(data)
    }

    fn webhook(&self, tenant: &str) -> Result<Members, RecordError> {
        let mut data = Members(Vec::new());
        data.text("subscription_id", self.text("subscription_id")?);
        data.text("tenant_id", tenant);
        self.push_optional_text(&mut data, "previous_status");
        self.push_optional_text(&mut data, "new_status");
        data.push("changed_fields", self.words("changed_fields")?);
        self.push_optional_text(&mut data, "disable_reason");
        Ok(data)
    }

    fn auth_failed(&self) -> Result<Members, RecordError> {
        let mut data = Members(Vec::new());
        let known = [
            ("key_id", self.0.get("key_id")),
            ("key_name", self.get("key_name")),
            ("failure_reason", Some(self.text("failure_reason")?)),
            ("source_ip", self.0.get("source_ip")),
        ];
        for (name, value) in known {
            if let Some(value) = value {
                data.text(name, value);
            }
        }
        Ok(data)
    }

    fn push_place(&self, data: &mut Members) -> Result<(), RecordError> {
        data.text("scope", self.scope()?);
        data.text("unit", self.text("unit")?);
        Ok(())
    }

    fn push_optional_text(&self, data: &mut Members, name: &'static str) {
        if let Some(text) = self.get(name) {
            data.text(name, text);
        }
    }

    fn scope(&self) -> Result<&str, RecordError> {
        self.0.text("scope")
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(&format!("data.{name}"))
    }

    fn text(&self, name: &str) -> Result<&str, RecordError> {
        self.0.text(&format!("data.{name}"))
    }

    fn figure(&self, name: &str) -> Result<i64, RecordError> {
        self.0.integer(&format!("data.{name}"))
    }

    fn integer(&self, name: &str) -> Result<Member, RecordError> {
        self.figure(name).map(Member::Integer)
    }

    fn flag(&self, name: &str) -> Result<Member, RecordError> {
        Ok(Member::Flag(self.text(name)? == "1"))
    }

    fn words(&self, name: &str) -> Result<Member, RecordError> {
        let words = self.text(name)?.split_whitespace();
        Ok(Member::Texts(words.map(str::to_owned).collect()))
    }
}

fn raw(json: &str, name: &str) -> Result<Member, RecordError> {
    let raw = RawValue::from_string(json.to_owned());
    raw.map(Member::Raw)
        .map_err(|_| RecordError::of(&format!("data.{name}")))
}
