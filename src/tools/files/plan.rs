//! The plan: what to create, change and take out of use, so that the service is as the file says.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value, json};

use super::forms::{Forms, plain};
use super::kinds::{BUDGET, TENANT, is_among};
use super::objects::{Object, Tenant};
use crate::api::operations::OperationId;
use crate::domain::payload_hash::PayloadHash;
use crate::domain::policy::ScopePattern;
use crate::domain::scope::ScopePath;
use crate::tools::call::Call;

/// One object to create, change or take out of use.
pub(super) struct Step {
    /// Its line of the plan.
    pub line: String,
    /// The same for programs.
    pub row: Value,
    /// The member with its id.
    pub id: &'static str,
    /// Steps of a lower order come first.
    pub order: usize,
    /// The requests, one after the other.
    pub calls: Vec<Call>,
}

/// What differs between a file and a service.
#[derive(Default)]
pub(super) struct Plan {
    pub steps: Vec<Step>,
    /// What the file cannot ask for.
    pub problems: Vec<String>,
    /// What stays as it is.
    pub notes: Vec<String>,
}

/// A member that differs: its name, and the values in the service and in the file.
type Change = (String, Value, Value);

impl Plan {
    /// Adds what differs in a tenant.
    pub fn add(&mut self, wanted: &Tenant, present: Option<&Tenant>, prune: bool, forms: &Forms) {
        let tenant = present.map(|present| &present.tenant);
        if tenant.is_some_and(|tenant| tenant.status == "CLOSED") {
            let (place, title) = (&wanted.tenant.place, wanted.tenant.title());
            let problem = format!("{place}: {title} is closed, for good; remove it from the file");
            return self.problems.push(problem);
        }
        self.object(&wanted.tenant, tenant, forms);
        let owned = present.map_or(&[][..], |present| &present.owned);
        let mut unlisted: HashMap<_, Vec<_>> = HashMap::new();
        for object in owned {
            unlisted.entry(object.identity()).or_default().push(object);
        }
        let mut found = Vec::new();
        for object in &wanted.owned {
            found.push(unlisted.remove(&object.identity()).unwrap_or_default());
        }
        let mut unlisted: Vec<_> = unlisted.into_values().flatten().collect();
        unlisted.sort_by_key(|object| &object.name);
        for (object, found) in wanted.owned.iter().zip(found) {
            let (place, scope) = (&object.place, &object.members["scope"]);
            if found.len() > 1 {
                let (title, count) = (object.title(), found.len());
                let problem =
                    format!("{place}: the service has {count} called {title}; end others");
                self.problems.push(problem);
            }
            let is_other = |other: &&&Object| scope.is_string() && other.members["scope"] == *scope;
            if let (true, Some(other)) = (found.is_empty(), unlisted.iter().find(is_other)) {
                let unit = plain(&other.members["unit"]);
                let problem = format!("{place}.unit: must stay {unit}; to have both, list both");
                self.problems.push(problem);
            }
            self.object(object, found.first().copied(), forms);
        }
        let both = owned.iter().chain(&wanted.owned);
        let policies: Vec<_> = both.map(|object| &object.members).collect();
        unlisted.retain(|object| {
            let is_listed = wanted.listed.contains(&object.kind.word);
            is_listed && object.is_active() && templates_of(object, &policies).is_empty()
        });
        if prune {
            for object in unlisted {
                let calls = vec![set_status(object, object.kind.off)];
                self.step(object.kind.prune, object, Some(object), &[], calls);
            }
        } else if !unlisted.is_empty() {
            let (count, title) = (unlisted.len(), wanted.tenant.title());
            let note = format!("{title}: {count} not in the file are left alone, without --prune");
            self.notes.push(note);
        }
    }

    fn object(&mut self, wanted: &Object, present: Option<&Object>, forms: &Forms) {
        let (kind, place, status) = (wanted.kind, &wanted.place, wanted.status.as_str());
        let Some(present) = present else {
            let mut call = Call::of(kind.create).body(&wanted.request());
            if call.operation == OperationId::CreateWebhookSubscription {
                call = call.with(TENANT.id, Some(&wanted.tenant));
            }
            let mut calls = vec![call];
            calls.extend((status == kind.off).then(|| set_status(wanted, status)));
            return self.step("+ create", wanted, None, &[], calls);
        };
        let mut changes = self.changes(wanted, present, forms);
        let (mut body, mut calls) = (Map::new(), Vec::new());
        for (member, ..) in &changes {
            let member = member.split('.').next().unwrap_or_default();
            body.insert(member.to_owned(), wanted.members[member].clone());
        }
        let stays = status.is_empty() && !present.is_active();
        if stays {
            let (title, status) = (wanted.title(), &present.status);
            let note = format!("{title} stays {status}: its status is not in the file");
            self.notes.push(note);
        }
        let allocated = body.remove("allocated");
        if !body.is_empty() {
            calls.push(to(kind.update, present).body(&body));
        }
        if allocated.is_some() {
            calls.push(fund(wanted, present));
            if !present.is_active() && !wanted.is_active() {
                let problem = "cannot change while it is frozen; `status: ACTIVE` unfreezes it";
                self.problems.push(format!("{place}.allocated: {problem}"));
            }
        }
        if !status.is_empty() && status != present.status {
            changes.push(("status".to_owned(), json!(present.status), json!(status)));
            // A frozen budget takes no funding.
            let at = if wanted.is_active() { 0 } else { calls.len() };
            calls.insert(at, set_status(present, status));
        }
        if !calls.is_empty() {
            self.step("~ update", wanted, Some(present), &changes, calls);
        }
    }

    /// The members that differ. What cannot be changed is a problem.
    fn changes(&mut self, wanted: &Object, present: &Object, forms: &Forms) -> Vec<Change> {
        let (kind, mut changes) = (wanted.kind, Vec::new());
        // What the present period has been allocated includes what it took along.
        let mut both = [present, wanted].into_iter();
        let is_renewed = both.all(|object| object.members["period"].is_object());
        for member in forms.names(kind) {
            let (from, to) = (&present.members[member], &wanted.members[member]);
            let is_allocated = member == "allocated";
            let stays = to.is_null() && is_among(kind.chosen, member) || is_allocated && is_renewed;
            if from == to || stays {
                continue;
            }
            if !is_allocated && !forms.can_change(kind, member) {
                let (place, from, to) = (&wanted.place, plain(from), plain(to));
                let problem = format!("{place}.{member}: cannot change; it is {from}, not {to}");
                self.problems.push(problem);
            }
            add_changes(member.to_owned(), from, to, &mut changes);
        }
        changes
    }

    fn step(
        &mut self,
        action: &str,
        object: &Object,
        present: Option<&Object>,
        changes: &[Change],
        mut calls: Vec<Call>,
    ) {
        let (kind, mut rows) = (object.kind, Vec::new());
        let mut line = format!("{action} {}", object.title());
        for (at, (member, from, to)) in changes.iter().enumerate() {
            let separator = if at == 0 { ":" } else { "," };
            line += &format!("{separator} {member} {} → {}", plain(from), plain(to));
            rows.push(json!({"member": member, "from": from, "to": to}));
        }
        let row = json!({
            "action": &action[2..], "kind": kind.word, "tenant_id": object.tenant, "name": object.name,
            "changes": rows,
        });
        if is_among(kind.keyed, present.map_or("create", |_| "update")) {
            calls.iter_mut().for_each(|call| set_key(call, present));
        }
        // A budget comes before those below it.
        let order = kind.order + object.name.matches('/').count();
        self.steps.push(Step {
            line,
            row,
            id: kind.id,
            order,
            calls,
        });
    }
}

/// The templates of some policies that make a budget like this one.
pub(super) fn templates_of<'p>(budget: &Object, policies: &[&'p Value]) -> Vec<&'p Value> {
    let scope = budget.members["scope"].as_str().and_then(ScopePath::parse);
    let mut found = Vec::new();
    for policy in policies {
        let templates = policy["budget_templates"].as_array().into_iter().flatten();
        let mut templates = templates.filter(|it| it["unit"] == budget.members["unit"]);
        let pattern = policy["scope_pattern"].as_str().map(ScopePattern::parse);
        if let (Some(scope), Some(Ok(pattern))) = (&scope, pattern)
            && pattern.matches(scope)
        {
            found.extend(templates.by_ref());
        }
    }
    found
}

/// Adds the innermost members that differ.
fn add_changes(member: String, from: &Value, to: &Value, changes: &mut Vec<Change>) {
    match (from, to) {
        (Value::Object(before), Value::Object(after)) if from["amount"].is_null() => {
            let names: BTreeMap<_, _> = before.iter().chain(after).collect();
            for name in names.into_keys().filter(|name| from[*name] != to[*name]) {
                add_changes(format!("{member}.{name}"), &from[name], &to[name], changes);
            }
        }
        _ => changes.push((member, from.clone(), to.clone())),
    }
}

/// A request about an object that the service has. Without an id it is about the one that the request before created.
fn to(operation: OperationId, object: &Object) -> Call {
    let mut call = Call::of(operation);
    call.id = object.source[object.kind.id].as_str().map(str::to_owned);
    if object.kind.is_budget() {
        for name in BUDGET.identity.split(' ') {
            call = call.with(name, object.members[name].as_str());
        }
    }
    call
}

fn set_status(object: &Object, status: &str) -> Call {
    match (object.kind.word, status) {
        ("budget", "FROZEN") => to(OperationId::FreezeBudget, object),
        ("budget", _) => to(OperationId::UnfreezeBudget, object),
        ("key", _) => to(OperationId::RevokeApiKey, object),
        _ => to(object.kind.update, object).body(&json!({"status": status})),
    }
}

/// Sets what is allocated; what is spent and held stays. To set it would end temporary increases, so beside these it is raised or
/// lowered.
fn fund(wanted: &Object, present: &Object) -> Call {
    let [from, new] =
        [present, wanted].map(|object| object.members["allocated"]["amount"].as_i64().unwrap_or(0));
    let (operation, amount) = match (present.source["increases"].is_array(), new > from) {
        (false, _) => ("RESET", new),
        (true, true) => ("CREDIT", new - from),
        (true, false) => ("DEBIT", from - new),
    };
    let amount = json!({"unit": wanted.members["unit"], "amount": amount});
    let body =
        json!({"operation": operation, "amount": amount, "reason": "budget-authority apply"});
    let call = to(OperationId::FundBudget, present).body(&body);
    call.with(TENANT.id, Some(&wanted.tenant))
}

/// Sets an idempotency key that the request and the present state determine: a step that is planned again from this state has the same
/// one, and another after the object was changed in between.
fn set_key(call: &mut Call, present: Option<&Object>) {
    let state = present.map(|it| (&it.members, &it.status, &it.source["updated_at"]));
    let call_parts = (&call.id, &call.query, &call.body);
    let request = json!([call.operation.as_str(), call_parts, state]);
    let key = PayloadHash::of_canonical(&request.to_string());
    call.key = Some(format!("apply-{}", key.as_str()));
}
