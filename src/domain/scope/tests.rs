//! Scopes, their grammar, and the filters over them.

use super::*;
use crate::domain::ids::TenantId;
use crate::domain::subject::Subject;

fn path(text: &str) -> ScopePath {
    ScopePath::parse(text).unwrap_or_else(|| panic!("{text}"))
}

fn subject(values: &[(Level, &str)]) -> Subject {
    Subject::from_values(values.iter().copied()).unwrap()
}

#[test]
fn enclosing_scopes_skip_missing_levels_and_are_lower_case() {
    use Level::*;
    for (values, scopes) in [
        (&[(Tenant, "acme")][..], vec!["tenant:acme"]),
        (
            &[(Tenant, "acme"), (Workspace, "Prod"), (Agent, "Bot_1")],
            vec![
                "tenant:acme",
                "tenant:acme/workspace:prod",
                "tenant:acme/workspace:prod/agent:bot_1",
            ],
        ),
        (
            &[(Tenant, "acme"), (Toolset, "web.search")],
            vec!["tenant:acme", "tenant:acme/toolset:web.search"],
        ),
        (
            &[(Workflow, "w"), (App, "a"), (Tenant, "acme")],
            vec![
                "tenant:acme",
                "tenant:acme/app:a",
                "tenant:acme/app:a/workflow:w",
            ],
        ),
        (&[(Workspace, "prod")], vec!["workspace:prod"]),
    ] {
        let subject = subject(values);
        let scope = ScopePath::of(|level| subject.value(level));
        let found: Vec<_> = scope.with_parents().collect();
        assert_eq!(
            found.iter().map(ScopePath::as_str).collect::<Vec<_>>(),
            scopes
        );
    }
}

#[test]
fn a_path_knows_its_parts() {
    let scope = path("tenant:acme/workspace:prod/agent:x");
    assert_eq!(scope.last_segment(), "agent:x");
    assert_eq!(scope.value(Level::Workspace), Some("prod"));
    assert_eq!(scope.value(Level::App), None);
    assert_eq!(
        scope
            .with_parents()
            .map(|parent| parent.to_string())
            .collect::<Vec<_>>(),
        [
            "tenant:acme",
            "tenant:acme/workspace:prod",
            "tenant:acme/workspace:prod/agent:x"
        ]
    );
    assert_eq!(path("workspace:prod").with_parents().count(), 1);
    assert_eq!(ScopePath::parse("tenant:ACME"), None);
}

#[test]
fn a_budget_scope_is_lower_cased_but_remembers_its_tenant_as_sent() {
    let scope = BudgetScope::parse("tenant:acme/agent:Bot-1.x").unwrap();
    assert_eq!(scope.path().as_str(), "tenant:acme/agent:bot-1.x");
    assert_eq!(scope.tenant_as_sent(), "acme");
    let scope = BudgetScope::parse("tenant:ACME").unwrap();
    assert_eq!(scope.path().as_str(), "tenant:acme");
    assert_eq!(scope.tenant_as_sent(), "ACME");
    let scope = BudgetScope::parse("tenant:acme/agent:Ann+bot@example.com").unwrap();
    assert_eq!(
        scope.path().as_str(),
        "tenant:acme/agent:ann+bot@example.com"
    );
    assert!(BudgetScope::parse("tenant:-acme-").is_ok());
    assert!(BudgetScope::parse(&format!("tenant:{}", "x".repeat(128))).is_ok());
}

#[test]
fn a_broken_budget_scope_is_refused_naming_the_segment() {
    let long = format!("tenant:{}", "x".repeat(129));
    for (text, part) in [
        ("", "segment 1"),
        ("/tenant:acme", "segment 1"),
        ("tenant:acme/", "segment 2"),
        ("tenant:acme//app:x", "segment 2"),
        ("acme", "`acme`"),
        ("tenant:acme/prod", "`prod`"),
        ("tenant:acme/team:x", "`team:x`"),
        ("tenant:acme/Agent:x", "`Agent:x` must start with"),
        ("TENANT:acme", "`TENANT:acme` must start with"),
        ("tenant:acme/agent:x/app:y", "`app:y`"),
        ("tenant:acme/app:x/app:y", "`app:y`"),
        ("tenant:", "`tenant:`"),
        ("tenant:acme/app:*", "`app:*`"),
        ("tenant:acme/app:a b", "`app:a b`"),
        ("tenant:acme/app:a:b", "`app:a:b`"),
        ("tenant:acme/app:é", "`app:é`"),
        ("tenant:acme/app:\0", "`app:\\u{0}`"),
        ("tenant:a@b.c/app:x", "the id of segment `tenant:a@b.c`"),
        ("workspace:prod", "`workspace:prod`"),
        (long.as_str(), "1 to 128"),
    ] {
        let message = BudgetScope::parse(text).unwrap_err().to_string();
        assert!(message.contains(part), "{text}: {message}");
    }
}

#[test]
fn a_scope_filter_admits_by_any_entry_on_any_segment() {
    let scope = path("tenant:acme/workspace:prod/agent:x");
    for (entries, admitted) in [
        (&[][..], true),
        (&["workspace:prod"], true),
        (&["WORKSPACE:Prod"], true),
        (&["workspace:*"], true),
        (&["app:*", "agent:x"], true),
        (&["app:*"], false),
        (&["*"], false),
        (&[""], false),
        (&["  "], false),
        (&["workspace:pro"], false),
        (&["workspace:prod*"], false),
        (&["work:*"], false),
        (&[":*"], false),
        (&["prod"], false),
        (&["tenant:acme"], true),
        (&["tenant:*"], true),
        (&["tenant:acm"], false),
        (&["tenant:acme/workspace:prod"], true),
        (&["tenant:acme/workspace:prod/agent:x"], true),
        (&["tenant:acme/workspace:prod/agent:x/toolset:t"], false),
        (&["tenant:acme/workspace:pro"], false),
        (&["tenant:acme/agent:x"], false),
    ] {
        let filter = ScopeFilter::new(entries.iter().map(ToString::to_string));
        assert_eq!(filter.admits(scope.as_str()), admitted, "{entries:?}");
    }
}

#[test]
fn a_scope_filter_admits_patterns_that_lie_within_it() {
    for (entry, pattern, admitted) in [
        ("*", "tenant:acme/*", false),
        ("tenant:acme", "tenant:acme/*", true),
        ("tenant:acme/app:x", "tenant:acme/*", false),
        ("tenant:acme/app:x", "tenant:acme/app:*", false),
        ("tenant:acme/app:x", "tenant:acme/app:x", true),
        ("tenant:acme/app:x", "tenant:acme/app:x/*", true),
        ("tenant:acme/app:x", "tenant:acme/app:x/agent:*", true),
        ("app:*", "tenant:acme/app:*", true),
        ("app:x", "tenant:acme/app:*", false),
    ] {
        let filter = ScopeFilter::new([entry.to_owned()]);
        assert_eq!(filter.admits(pattern), admitted, "{entry} {pattern}");
    }
}

#[test]
fn a_path_of_a_filter_lies_in_the_tenant_of_the_key() {
    let tenant = TenantId::parse("acme").unwrap();
    for (entries, outside) in [
        (&["agent:x", "app:*", ""][..], None),
        (&["tenant:acme", "TENANT:Acme/App:x"], None),
        (&["agent:x", "tenant:acme-corp"], Some(1)),
        (&["tenant:acm/app:x"], Some(0)),
        (&["app:x/agent:y"], Some(0)),
        (&["tenant:*", "Tenant:*"], None),
        (&["tenant:*/app:x"], Some(0)),
    ] {
        let filter = ScopeFilter::new(entries.iter().map(ToString::to_string));
        let found = filter.outside(&tenant).map(|(index, _)| index);
        assert_eq!(found, outside, "{entries:?}");
    }
}

#[test]
fn an_entry_of_one_segment_is_found_beside_paths() {
    for (entries, found) in [
        (&[][..], None),
        (&["tenant:*", "tenant:acme/agent:x", "*", "", "agent"], None),
        (&["tenant:acme/agent:x", "Agent:x"], Some(1)),
        (&["app:*"], Some(0)),
    ] {
        let filter = ScopeFilter::new(entries.iter().map(ToString::to_string));
        assert_eq!(filter.one_segment(), found, "{entries:?}");
    }
}

#[test]
fn the_lines_of_a_filter_never_widen_it() {
    for (entries, lines) in [
        (&[][..], ""),
        (&["Workspace:Prod", "agent:*"], "workspace:prod\nagent:*"),
        (&["", "agent:x"], "agent:x"),
        (&[""], "*"),
        (&["*"], "*"),
        (&["agent:x\ntenant:*"], "*"),
        (&["Tenant:acme/Agent:x"], "tenant:acme/agent:x"),
        (&["agent:x/app:y"], "*"),
        (&["tenant:acme/agent:*"], "*"),
        (&["tenant:acme/agent:x/app:y"], "*"),
        (&["Tenant:*"], "tenant:*"),
        (&["tenant:*/app:x"], "*"),
        (&["agent"], "agent"),
    ] {
        let filter = ScopeFilter::new(entries.iter().map(ToString::to_string));
        assert_eq!(filter.lines(), lines, "{entries:?}");
    }
}

#[test]
fn a_segment_filter_requires_every_segment_exactly() {
    let scope = path("tenant:acme/workspace:prod/agent:x");
    use Level::*;
    for (wanted, matches) in [
        (&[][..], true),
        (&[(Tenant, "acme")], true),
        (&[(Workspace, "PROD"), (Agent, "x")], true),
        (&[(Workspace, "prod"), (App, "a")], false),
        (&[(Tenant, "acm")], false),
        (&[(Tenant, "acme-corp")], false),
        (&[(Agent, "x/y")], false),
    ] {
        let filter = SegmentFilter::new(wanted.iter().copied());
        assert_eq!(filter.matches(&scope), matches, "{wanted:?}");
    }
}
