//! The payloads: which members each type of event has, and what they are made of.

use crate::domain::json::Json;
use crate::domain::log_fields;
use crate::domain::moment::Moment;
use crate::domain::record::{Record, RecordError};
use crate::domain::scope::Level;

/// The figures and the status of a ledger.
const STATE: [&str; 6] = [
    "allocated",
    "remaining",
    "debt",
    "spent",
    "reserved",
    "status",
];

/// What a period leaves behind.
const PERIOD: [&str; 5] = ["allocated", "spent", "debt", "period_start?", "period_end?"];

/// The members of a payload, in order. One with `?` is left out where its fact is missing. `cause.x` is the member `x`, as
/// the cause of the event has it.
fn members_of(event_type: &str) -> Option<&'static str> {
    Some(match event_type {
        "budget.created" => "ledger_id scope unit operation policy_id?",
        "budget.funded" | "budget.debited" | "budget.reset" | "budget.reset_spent"
        | "budget.debt_repaid" | "budget.updated" | "budget.frozen" | "budget.unfrozen" => {
            "ledger_id scope unit operation previous_state? new_state? spent_override_provided? reason?"
        }
        "budget.period_started" => {
            "ledger_id scope unit operation period_start? period_end? carried previous reason?"
        }
        "budget.increase_started" | "budget.increase_ended" => {
            "ledger_id scope unit increase_id amount until reason?"
        }
        "budget.threshold_crossed" | "budget.exhausted" => {
            "scope unit threshold utilization? allocated remaining spent reserved direction"
        }
        "budget.over_limit_entered" | "budget.over_limit_exited" => {
            "scope unit debt overdraft_limit is_over_limit debt_utilization?"
        }
        "budget.debt_incurred" => {
            "scope unit reservation_id? debt_incurred total_debt overdraft_limit overage_policy"
        }
        "reservation.denied" | "reservation.would_deny" => {
            "scope unit reason_code requested_amount remaining? action subject policy_id? deny_detail?"
        }
        "reservation.commit_overage" => {
            "reservation_id scope unit estimated_amount actual_amount overage overage_policy debt_incurred"
        }
        "reservation.refunded" => {
            "reservation_id? event_id? scope unit amount refunded charged reason"
        }
        "reservation.expired" => {
            "reservation_id scope unit estimated_amount created_at expired_at ttl_ms extensions_used"
        }
        "policy.created" | "policy.updated" => "policy_id name scope_pattern changed_fields",
        "tenant.created"
        | "tenant.updated"
        | "tenant.settings_changed"
        | "tenant.suspended"
        | "tenant.reactivated"
        | "tenant.closed" => "tenant_id previous_status? new_status? changed_fields",
        "budget.closed_via_tenant_cascade" | "reservation.released_via_tenant_cascade" => {
            "ledger_id scope unit prior_status new_status? released_amount? released_reserved_amount? cascade_reason"
        }
        "webhook.disabled_via_tenant_cascade" => {
            "subscription_id name? prior_status new_status? cascade_reason"
        }
        "api_key.revoked_via_tenant_cascade" => {
            "key_id name? prior_status new_status? cascade_reason"
        }
        "api_key.created"
        | "api_key.revoked"
        | "api_key.expired"
        | "api_key.permissions_changed" => {
            "key_id key_name? previous_status? new_status? permissions?"
        }
        "api_key.auth_failed" => "cause.key_id? key_name? failure_reason cause.source_ip?",
        "webhook.created" | "webhook.updated" | "webhook.paused" | "webhook.resumed"
        | "webhook.disabled" | "webhook.deleted" => {
            "subscription_id tenant_id previous_status? new_status? changed_fields disable_reason?"
        }
        "budget.burn_rate_anomaly" => {
            "scope unit current_rate baseline_rate multiplier window_seconds projected_exhaustion_minutes?"
        }
        "reservation.denial_rate_spike"
        | "reservation.expiry_rate_spike"
        | "api_key.auth_failure_rate_spike" => {
            "metric current_rate threshold_rate window_seconds sample_count"
        }
        "system.store_connection_lost"
        | "system.store_connection_restored"
        | "system.high_latency"
        | "system.webhook_delivery_failed" => "component message severity details?",
        _ => return None,
    })
}

/// The payload of an event of this type.
pub(super) fn of(event_type: &str, tenant: &str, facts: &Record) -> Result<Json, RecordError> {
    let facts = Facts { tenant, facts };
    let members = members_of(event_type).ok_or_else(|| RecordError::of("type"))?;
    let mut data = Vec::new();
    for member in members.split(' ') {
        let optional = member.strip_suffix('?');
        let name = optional.unwrap_or(member);
        match (facts.member(name)?, optional) {
            (Some(value), _) => {
                let name = name.strip_prefix("cause.").unwrap_or(name);
                data.push((name.into(), value));
            }
            (None, Some(_)) => {}
            (None, None) => return Err(RecordError::of(&format!("data.{name}"))),
        }
    }
    Ok(Json::Object(data))
}

/// The facts that a script appended. Most members are facts under `data.`, see [`log_fields`]; the others are made here.
struct Facts<'a> {
    tenant: &'a str,
    facts: &'a Record,
}

impl Facts<'_> {
    fn member(&self, name: &str) -> Result<Option<Json>, RecordError> {
        Ok(match name {
            "scope" => self.facts.get("scope").map(Json::from),
            "tenant_id" => Some(self.tenant.into()),
            "cascade_reason" => Some("tenant_closed".into()),
            "threshold" => Some((self.figure("threshold_millionths")? as f64 / 1e6).into()),
            "utilization" => {
                let used = i128::from(self.figure("spent")?) + i128::from(self.figure("reserved")?);
                share(used as f64, self.figure("allocated")?)
            }
            "current_rate" | "baseline_rate" | "multiplier" | "projected_exhaustion_minutes" => {
                self.rate(name)?.map(Json::from)
            }
            "threshold_rate" => Some(self.number("threshold_rate")?.into()),
            "debt_utilization" => {
                share(self.figure("debt")? as f64, self.figure("overdraft_limit")?)
            }
            "until" => Some(self.moment("until_ms")?.to_string().as_str().into()),
            "created_at" => Some(self.moment("created_at_ms")?.to_string().as_str().into()),
            "expired_at" => Some(self.moment("expires_at_ms")?.to_string().as_str().into()),
            "ttl_ms" => {
                let (created, expired) =
                    (self.moment("created_at_ms")?, self.moment("expires_at_ms")?);
                Some((expired.as_ms() - created.as_ms()).into())
            }
            "details" => self.json("details")?,
            "previous_state" | "new_state" => self.state(name, &STATE)?,
            "previous" => self.state(name, &PERIOD)?,
            "action" => Some(self.action()?),
            "subject" => Some(self.subject()?),
            "deny_detail" => {
                let scope = self.fact("blocked_by_scope")?;
                scope.map(|scope| Json::from_iter([("blocked_by_scope", scope)]))
            }
            name => match name.strip_prefix("cause.") {
                Some(name) => self.facts.get(name).map(Json::from),
                None => self.fact(name)?,
            },
        })
    }

    /// What a ledger was before or after, if the change has it. A member with `?` is left out where its fact is missing.
    fn state(&self, state: &str, members: &[&str]) -> Result<Option<Json>, RecordError> {
        if self.get(&format!("{state}.allocated")).is_none() {
            return Ok(None);
        }
        let mut present = Vec::with_capacity(members.len());
        for member in members {
            let name = member.trim_end_matches('?');
            let path = format!("data.{state}.{name}");
            let Some(text) = self.facts.get(&path) else {
                if *member == name {
                    return Err(RecordError::of(&path));
                }
                continue;
            };
            let value = log_fields::json_of(name, text);
            present.push((name, value.ok_or_else(|| RecordError::of(&path))?));
        }
        Ok(Some(Json::from_iter(present)))
    }

    fn action(&self) -> Result<Json, RecordError> {
        let text = |name| self.facts.text(name).map(Json::from);
        let mut members = vec![
            ("kind", text("data.action_kind")?),
            ("name", text("data.action_name")?),
        ];
        members.extend(self.json("action_tags")?.map(|tags| ("tags", tags)));
        Ok(Json::from_iter(members))
    }

    /// The subject as it was sent, or from the scope path where that is the same.
    fn subject(&self) -> Result<Json, RecordError> {
        if let Some(subject) = self.json("subject")? {
            return Ok(subject);
        }
        let level = |segment: &str| {
            let (level, value) = segment.split_once(':')?;
            Some((Level::parse(level)?.as_str(), value.into()))
        };
        let levels: Option<Vec<_>> = self.facts.text("scope")?.split('/').map(level).collect();
        levels
            .map(Json::from_iter)
            .ok_or_else(|| RecordError::of("scope"))
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.facts.get(&format!("data.{name}"))
    }

    fn fact(&self, name: &str) -> Result<Option<Json>, RecordError> {
        self.read(name, |text| log_fields::json_of(name, text))
    }

    fn json(&self, name: &str) -> Result<Option<Json>, RecordError> {
        self.read(name, |text| Json::parse(text.as_bytes()).ok())
    }

    fn read<T>(
        &self,
        name: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, RecordError> {
        let read = |text| read(text).ok_or_else(|| RecordError::of(&format!("data.{name}")));
        self.get(name).map(read).transpose()
    }

    /// A figure of a detector's event, from what was counted: a share of samples, or amounts per minute.
    fn rate(&self, name: &str) -> Result<Option<f64>, RecordError> {
        if self.get("occurrences").is_some() {
            let share = self.number("occurrences")? / self.number("sample_count")?;
            return Ok(Some(share));
        }
        let minutes = self.number("window_seconds")? / 60.0;
        let current = self.number("charged")? / minutes;
        let baseline = || {
            let windows = self.number("baseline_windows")?;
            Ok(self.number("baseline_charged")? / (minutes * windows))
        };
        Ok(Some(match name {
            "baseline_rate" => baseline()?,
            "multiplier" => current / baseline()?,
            "projected_exhaustion_minutes" => {
                let remaining = self.figure("remaining")?;
                return Ok((remaining > 0).then(|| remaining as f64 / current));
            }
            _ => current,
        }))
    }

    fn number(&self, name: &str) -> Result<f64, RecordError> {
        let unreadable = || RecordError::of(&format!("data.{name}"));
        let text = self.get(name).ok_or_else(unreadable)?;
        let number = text.parse::<f64>().ok().filter(|it| it.is_finite());
        number.ok_or_else(unreadable)
    }

    fn figure(&self, name: &str) -> Result<i64, RecordError> {
        self.facts.integer(&format!("data.{name}"))
    }

    fn moment(&self, name: &str) -> Result<Moment, RecordError> {
        self.facts.read(&format!("data.{name}"))
    }
}

/// A part of a whole; none where the whole is nothing.
fn share(part: f64, whole: i64) -> Option<Json> {
    (whole > 0).then(|| (part / whole as f64).into())
}
