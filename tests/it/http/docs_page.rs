//! The page of the description in a real browser, where one is installed; elsewhere the tests beside the page parse it.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::harness::app::TestApp;
use crate::harness::http;

/// A phone's width, in pixels.
const PHONE: u32 = 360;

/// Names elements that are wider than the phone. A block of code scrolls by itself, so what is inside does not count.
const MEASURE: &str = r#"<script>
document.body.style.width = "WIDTHpx";
const isWide = (e) => e.getBoundingClientRect().right > WIDTH && (e.tagName === "PRE" || !e.closest("pre"));
document.title = "wide: " + [...document.querySelectorAll("body *")].filter(isWide).map((e) => e.tagName).join(" ");
</script></body>"#;

struct Browser {
    program: &'static str,
    folder: PathBuf,
}

impl Browser {
    fn find() -> Option<Self> {
        let program = ["chromium", "google-chrome"].into_iter().find(|program| {
            let mut command = Command::new(program);
            command
                .arg("--version")
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            command.status().is_ok_and(|status| status.success())
        })?;
        let name = format!("budget-authority-browser-{:016x}", rand::random::<u64>());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder).expect("the temporary folder is writable");
        Some(Self { program, folder })
    }

    /// The page as it is after its scripts ran, and what the browser logged of it.
    fn open(&self, url: &str) -> (String, String) {
        let mut command = Command::new("timeout");
        command.args([
            "60",
            self.program,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
        ]);
        command.arg(format!("--user-data-dir={}", self.folder.display()));
        command.args([
            "--window-size=500,900",
            "--enable-logging=stderr",
            "--dump-dom",
            url,
        ]);
        let output = command.output().expect("it was found");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (text(&output.stdout), text(&output.stderr))
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_fits_a_phone_and_its_own_security_policy() {
    let Some(browser) = Browser::find() else {
        return;
    };
    let app = TestApp::spawn().await;
    let url = format!("http://{}/docs", app.address);
    let (page, log) = tokio::task::block_in_place(|| browser.open(&url));
    assert!(page.contains("createReservation"), "{log}");
    assert!(!log.contains("Content Security Policy"), "{log}");
    let html = http::get(&url)
        .await
        .expect("a response")
        .text()
        .await
        .expect("text");
    let file = browser.folder.join("page.html");
    let measure = MEASURE.replace("WIDTH", &PHONE.to_string());
    fs::write(&file, html.replace("</body>", &measure)).expect("it is written");
    let url = format!("file://{}", file.display());
    let (page, log) = tokio::task::block_in_place(|| browser.open(&url));
    assert!(page.contains("<title>wide: </title>"), "{log}\n{page:.400}");
}
