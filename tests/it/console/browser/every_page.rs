//! What holds on every page: its accessibility, its width, its links, and that the browser finds nothing wrong.

use std::collections::BTreeSet;

use super::demo::Demo;
use super::pages::{PageOf, of_operators, of_tenants};
use super::window::{Browser, Scheme};
use crate::console::reader::Reader;
use crate::harness::app::ADMIN_KEY;

/// Widths of a window in pixels: a small phone, and a desktop.
const WIDTHS: [u32; 2] = [360, 1280];

/// What is wrong with the open page.
async fn problems(browser: &Browser, name: &str) -> Vec<String> {
    let mut problems = Vec::new();
    for width in WIDTHS {
        browser.resize(width).await;
        let overhang = browser.overhang().await;
        if !overhang.is_empty() {
            problems.push(format!("{name}: {overhang}"));
        }
    }
    for scheme in Scheme::ALL {
        browser.prefer(scheme).await;
        let violations = browser.violations().await.into_iter();
        problems.extend(violations.map(|line| format!("{name}, {}: {line}", scheme.word())));
    }
    let errors = browser.errors().await.into_iter();
    problems.extend(errors.map(|line| format!("{name}: {line}")));
    problems
}

/// Checks the pages, and that their links lead to a page for this key.
async fn check(demo: &Demo, key: &str, browser: &Browser, pages: Vec<PageOf>) {
    let (mut wrong, mut linked) = (Vec::new(), BTreeSet::new());
    for page in pages {
        browser.go(&page.path).await;
        assert_eq!(browser.path().await, page.path);
        assert_eq!(browser.count("h1").await, 1, "{}", page.path);
        wrong.extend(problems(browser, page.name).await);
        linked.extend(browser.links().await);
    }
    let reader = Reader::with_key(&demo.app, key).await;
    assert!(linked.len() > 20, "{linked:?}");
    for path in linked {
        let found = reader.get(&path).await;
        if found.status.is_client_error() || found.status.is_server_error() {
            wrong.push(format!("{path}: {}", found.status));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn every_page_of_operators_is_accessible_narrow_and_sound() {
    let demo = Demo::new().await;
    let browser = Browser::with_key(&demo.app, ADMIN_KEY).await;
    check(&demo, ADMIN_KEY, &browser, of_operators(&demo.ids)).await;
}

#[tokio::test]
async fn every_page_of_tenants_is_accessible_narrow_and_sound() {
    let demo = Demo::new().await;
    let login = Browser::of(&demo.app).await;
    login.go("/console/login").await;
    assert_eq!(problems(&login, "login").await, Vec::<String>::new());
    login.log_in(&demo.key).await;
    login.arrive("/console/tenants/northwind").await;
    check(&demo, &demo.key, &login, of_tenants(&demo.ids)).await;
}
