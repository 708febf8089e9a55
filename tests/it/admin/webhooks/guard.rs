//! The check of addresses over HTTP, and its configuration. No address outside this machine is contacted: the tests
//! resolve the names.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use budget_authority::egress::{AdmissionError, Egress, Resolver, SecurityPolicy, TrustedRoots};
use reqwest::Method;
use serde_json::{Value, json};

use crate::admin::http::umbra_on;
use crate::admin::webhooks::subscriptions::{HOOKS, hook, hooked, made, patch};
use crate::harness::app::TestApp;
use crate::harness::eventually;
use crate::harness::receiver::{Receiver, Reply, egress};

pub(crate) const SECURITY: &str = "/v1/admin/config/webhook-security";

/// Opens this machine: blocks nothing, allows http.
pub(crate) async fn open(app: &TestApp) {
    let body = json!({"blocked_cidr_ranges": [], "allow_http": true});
    app.as_admin(Method::PUT, SECURITY, &body).await.expect(200);
}

#[tokio::test]
async fn addresses_are_checked_when_a_webhook_is_created_and_changed() {
    let resolve = |host: &str| -> Vec<IpAddr> {
        let texts: &[&str] = match host {
            "good.example" => &["93.184.216.34", "2606:2800:220:1::1"],
            "loop.example" => &["127.0.0.1"],
            "mixed.example" => &["93.184.216.34", "10.0.0.1"],
            "mapped.example" => &["::ffff:169.254.169.254"],
            "zero.example" => &["0.0.0.0"],
            "ula.example" => &["fd00::1"],
            "local.example" => &["fe80::1"],
            _ => &[],
        };
        texts
            .iter()
            .map(|text| text.parse().expect("an address"))
            .collect()
    };
    let (way_out, resolved) = egress(resolve);
    let app = umbra_on(TestApp::spawn_reaching(way_out, &[]).await).await;
    let id = made(&app, hook("https://good.example/")).await;
    for url in [
        "http://good.example/",
        "ftp://good.example/",
        "good.example",
        "https://",
        "https://user:pw@good.example/",
        "https://good.example/#x",
        "https://good.example:0/",
        "https://good.example\\@evil.test/",
        "https://127.0.0.1/",
        "https://2130706433/",
        "https://0x7f000001/",
        "https://0177.0.0.1/",
        "https://127.1/",
        "https://012.0.0.1/",
        "https://10.1.2.3/",
        "https://172.16.0.1/",
        "https://192.168.0.1/",
        "https://169.254.169.254/latest/meta-data",
        "https://100.64.0.1/",
        "https://0.0.0.0/",
        "https://[::]/",
        "https://[::1]/",
        "https://[::ffff:127.0.0.1]/",
        "https://[64:ff9b::10.0.0.1]/",
        "https://[fc00::1]/",
        "https://[3fff::1]/",
        "https://[4000::1]/",
        "https://168.63.129.16/",
        "https://[fe80::1]/",
        "https://[fe80::1%25eth0]/",
        "https://224.0.0.1/",
        "https://255.255.255.255/",
        "https://203.0.113.1/",
        "https://loop.example/",
        "https://mixed.example/",
        "https://mapped.example/",
        "https://zero.example/",
        "https://ula.example/",
        "https://local.example/",
        "https://missing.example/",
    ] {
        let query = format!("{HOOKS}?tenant_id=umbra");
        for response in [
            app.post_as_admin(&query, hook(url)).await,
            patch(&app, &id, json!({"url": url})).await,
        ] {
            assert_eq!(
                response.error(),
                (400, "WEBHOOK_URL_INVALID"),
                "{url}: {response:?}"
            );
            assert_eq!(response.text("/details/field"), "url");
            let message = response.text("/message");
            let revealed = ["10.0.0.1", "169.254.169.254"]
                .iter()
                .any(|inside| message.contains(inside));
            assert!(
                !revealed,
                "the addresses of a name are not revealed: {message}"
            );
        }
    }
    // A malformed URL is not resolved.
    let resolved = resolved.lock().expect("no panic").clone();
    assert!(
        resolved.iter().all(|host| host.ends_with(".example")),
        "{resolved:?}"
    );
    assert_eq!(
        resolved
            .iter()
            .filter(|host| *host == "good.example")
            .count(),
        1,
        "one webhook, one look-up"
    );
}

#[tokio::test]
async fn the_operator_can_unblock_private_ranges_and_no_others() {
    let app = hooked().await;
    let query = format!("{HOOKS}?tenant_id=umbra");
    let try_out = |url: &'static str| {
        let (app, query) = (&app, &query);
        async move { app.post_as_admin(query, hook(url)).await.status }
    };
    assert_eq!(try_out("https://127.0.0.1/").await, 400);
    let body = json!({"blocked_cidr_ranges": []});
    app.as_admin(Method::PUT, SECURITY, &body).await.expect(200);
    for (url, status) in [
        ("https://127.0.0.1/", 400),
        ("https://[::1]/", 400),
        ("https://169.254.169.254/", 400),
        ("https://10.0.0.1/", 201),
        ("http://10.0.0.1/", 400),
        ("https://0.0.0.0/", 400),
        ("https://100.64.0.1/", 400),
        ("https://[fe80::1]/", 400),
        ("https://224.0.0.1/", 400),
        // Names come and go in development.
        ("https://missing.test/", 201),
    ] {
        assert_eq!(try_out(url).await, status, "{url}");
    }
    open(&app).await;
    assert_eq!(try_out("http://127.0.0.1:9/").await, 201);
    let body = json!({"allowed_url_patterns": ["https://*.example/*"]});
    app.as_admin(Method::PUT, SECURITY, &body).await.expect(200);
    assert_eq!(try_out("https://hooks.example/x").await, 201);
    assert_eq!(try_out("https://evil.test/x.example/y").await, 400);
    assert_eq!(
        try_out("https://127.0.0.1/").await,
        400,
        "the default ranges are back"
    );
}

#[tokio::test]
async fn a_list_without_the_default_ranges_unblocks_neither_loopback_nor_metadata() {
    let app = hooked().await;
    let body = json!({"blocked_cidr_ranges": ["203.0.113.0/24"]});
    app.as_admin(Method::PUT, SECURITY, &body).await.expect(200);
    for url in [
        "https://127.0.0.1/",
        "https://[::1]/",
        "https://169.254.169.254/latest/meta-data",
        "https://[fe80::1]/",
        "https://[fd00:ec2::254]/",
        "https://168.63.129.16/",
    ] {
        let query = format!("{HOOKS}?tenant_id=umbra");
        let response = app.post_as_admin(&query, hook(url)).await;
        assert_eq!(response.error(), (400, "WEBHOOK_URL_INVALID"), "{url}");
    }
}

#[tokio::test]
async fn the_configuration_is_replaced_as_a_whole_after_its_checks() {
    let app = hooked().await;
    let default = app.get_as_admin(SECURITY).await;
    assert_eq!(
        default.body,
        json!({
            "blocked_cidr_ranges": ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "127.0.0.0/8", "169.254.0.0/16",
                "::1/128", "fc00::/7"],
            "allowed_url_patterns": [], "allow_http": false,
        })
    );
    let put = |body: Value| {
        let app = &app;
        async move { app.as_admin(Method::PUT, SECURITY, &body).await }
    };
    let rules = json!({"blocked_cidr_ranges": ["10.0.0.0/8"], "allowed_url_patterns": ["https://*/*"], "allow_http": true});
    assert_eq!(put(rules.clone()).await.body, rules);
    assert_eq!(app.get_as_admin(SECURITY).await.body, rules);
    for (body, part) in [
        (
            json!({"blocked_cidr_ranges": ["10.0.0.0/33"]}),
            "blocked_cidr_ranges[0]",
        ),
        (
            json!({"blocked_cidr_ranges": ["10.0.0.0"]}),
            "blocked_cidr_ranges[0]: must be a network with its prefix length",
        ),
        (
            json!({"blocked_cidr_ranges": ["10.0.0.0/8", "x"]}),
            "blocked_cidr_ranges[1]",
        ),
        (
            json!({"allowed_url_patterns": ["*"]}),
            "allowed_url_patterns[0]",
        ),
        (json!({"allow_http": "yes"}), "allow_http"),
        (json!({"surprise": 1}), "surprise"),
    ] {
        let response = put(body.clone()).await;
        assert_eq!(response.error(), (400, "INVALID_REQUEST"), "{body}");
        assert!(response.text("/message").contains(part), "{response:?}");
    }
    assert_eq!(
        app.get_as_admin(SECURITY).await.body,
        rules,
        "nothing of a refused one is stored"
    );
    assert_eq!(put(json!({})).await.body, default.body);
    let fixture = app.admin_fixture();
    let recorded = fixture.audit(budget_authority::domain::ids::Partition::FIRST, "__admin__");
    let done: Vec<_> = recorded
        .iter()
        .filter(|entry| entry.get("operation") == Some("updateWebhookSecurityConfig"))
        .map(|entry| {
            (
                entry.get("metadata.allow_http"),
                entry.get("metadata.blocked_cidr_count"),
                entry.get("metadata.removed_default_ranges"),
            )
        })
        .collect();
    let removed = "172.16.0.0/12 192.168.0.0/16 127.0.0.0/8 169.254.0.0/16 ::1/128 fc00::/7";
    assert_eq!(
        done,
        [
            (Some("true"), Some("1"), Some(removed)),
            (Some("false"), Some("7"), None)
        ]
    );
}

/// A name that resolves to a good address the first time, and to loopback from then on.
#[tokio::test]
async fn a_name_is_resolved_once_and_the_connection_goes_to_the_checked_address() {
    let receiver = Receiver::start(Reply::Status(200, "")).await;
    let lookups = AtomicUsize::new(0);
    let (way_out, resolved) = egress(move |_| {
        let first = lookups.fetch_add(1, Ordering::Relaxed) == 0;
        vec![IpAddr::V4(if first {
            Ipv4Addr::new(93, 184, 216, 34)
        } else {
            Ipv4Addr::LOCALHOST
        })]
    });
    let policy = SecurityPolicy {
        blocked: vec!["127.0.0.0/8".parse().expect("a network")],
        patterns: Vec::new(),
        allow_http: true,
    };
    let url = format!("http://rebind.example:{}/", receiver.address.port());
    let target = way_out
        .admit(&url, &policy, "umbra")
        .await
        .expect("it is public the first time");
    assert!(format!("{target:?}").contains("93.184.216.34"));
    assert_eq!(resolved.lock().expect("no panic").len(), 1);
    let again = way_out.admit(&url, &policy, "umbra").await;
    assert!(
        matches!(again, Err(AdmissionError::BlockedHost)),
        "{again:?}"
    );
    assert!(receiver.arrived().is_empty());
}

#[tokio::test]
async fn a_webhook_with_a_name_of_a_blocked_address_is_not_sent_to() {
    let receiver = Receiver::start(Reply::Status(200, "")).await;
    let lookups = AtomicUsize::new(0);
    let (way_out, resolved) = egress(move |_| {
        let first = lookups.fetch_add(1, Ordering::Relaxed) == 0;
        vec![IpAddr::V4(if first {
            Ipv4Addr::new(93, 184, 216, 34)
        } else {
            Ipv4Addr::LOCALHOST
        })]
    });
    let app = umbra_on(TestApp::spawn_reaching(way_out, &[]).await).await;
    let url = format!("https://rebind.example:{}/", receiver.address.port());
    let id = made(&app, hook(&url)).await;
    let response = app
        .as_admin(Method::POST, &format!("{HOOKS}/{id}/test"), &json!({}))
        .await
        .expect(200);
    assert_eq!(response.at("/success"), &json!(false));
    assert_eq!(
        response.text("/error_message"),
        "Connection failed",
        "it looks like a closed port"
    );
    assert_eq!(resolved.lock().expect("no panic").len(), 2);
    assert!(receiver.arrived().is_empty());
}

/// The only permit is taken by a name whose look-up does not end.
#[tokio::test]
async fn a_slow_name_look_up_is_503() {
    let taken = Arc::new(AtomicUsize::new(0));
    let noted = Arc::clone(&taken);
    let resolver = Resolver::of(move |host| {
        let noted = Arc::clone(&noted);
        async move {
            if host == "slow.example" {
                noted.fetch_add(1, Ordering::Relaxed);
                std::future::pending::<()>().await;
            }
            Ok(vec![IpAddr::from([93, 184, 216, 34])])
        }
    });
    let way_out = Egress::new(resolver.limited(1), &TrustedRoots::public());
    let app = umbra_on(TestApp::spawn_reaching(way_out, &[]).await).await;
    let id = made(&app, hook("https://good.example/")).await;
    let path = format!("{HOOKS}?tenant_id=umbra");
    let create = async |url: &str| app.post_as_admin(&path, hook(url)).await;
    let others = async {
        let slow_begun = async || taken.load(Ordering::Relaxed) == 1;
        eventually("the permit is taken", slow_begun).await;
        let test = format!("{HOOKS}/{id}/test");
        let nothing = json!({});
        let tested = app.as_admin(Method::POST, &test, &nothing);
        tokio::join!(create("https://good.example/"), tested)
    };
    let (slow, (created, tested)) = tokio::join!(create("https://slow.example/"), others);
    slow.refused(400, "WEBHOOK_URL_INVALID");
    for busy in [created, tested] {
        let busy = busy.refused(503, "INTERNAL_ERROR");
        assert!(busy.header("retry-after").is_some());
    }
}
