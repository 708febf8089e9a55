//! The pictures of the pages among the documents, which `make screenshots` takes: each page has two, and no other is there.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::demo::{Demo, Ids};
use super::pages::of_operators;
use super::window::{Browser, Scheme};
use crate::harness::app::ADMIN_KEY;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/console")
}

fn file(page: &str, scheme: Scheme) -> String {
    format!("{page}-{}.png", scheme.word())
}

async fn take(browser: &Browser, page: &str) {
    for scheme in Scheme::ALL {
        browser.prefer(scheme).await;
        let path = folder().join(file(page, scheme));
        fs::write(path, browser.picture().await).expect("it is written");
    }
}

/// Run with `UPDATE_SNAPSHOTS=1` to take them anew.
#[tokio::test]
async fn every_page_has_its_pictures() {
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        let _ = fs::remove_dir_all(folder());
        fs::create_dir(folder()).expect("a folder");
        let demo = Demo::new().await;
        let browser = Browser::of(&demo.app).await;
        browser.resize(1280).await;
        browser.go("/console/login").await;
        take(&browser, "login").await;
        browser.enter(ADMIN_KEY).await;
        for page in of_operators(&demo.ids) {
            browser.go(&page.path).await;
            take(&browser, page.name).await;
        }
    }
    let pages = of_operators(&Ids::default());
    let names = pages.iter().map(|page| page.name).chain(["login"]);
    let expected = names.flat_map(|name| Scheme::ALL.map(|scheme| file(name, scheme)));
    let entries = fs::read_dir(folder()).expect("make screenshots takes them");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    let found: BTreeSet<_> = names
        .map(|name| name.to_string_lossy().into_owned())
        .collect();
    assert_eq!(found, expected.collect(), "make screenshots takes them");
}
