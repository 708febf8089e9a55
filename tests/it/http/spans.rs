//! Spans of real processes, exported to a receiver of this test.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Inner;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use serde_json::json;

use crate::admin::webhooks::subscriptions::HOOKS;
use crate::harness::app::ADMIN_KEY;
use crate::harness::deliveries::here;
use crate::harness::eventually;
use crate::harness::http;
use crate::harness::process::{Environment, Process, Replica};
use crate::harness::receiver::{Receiver, Reply};
use crate::harness::retrying_client::LONG_REDIS_TIMEOUT;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER: &str = "b7ad6b7169203331";
const FUND: &str = "/v1/admin/budgets/fund?scope=tenant:umbra&unit=TOKENS&tenant_id=umbra";

/// A span, and the service that sent it.
#[derive(Debug, Clone)]
struct ExportedSpan {
    service: String,
    span: Span,
}

impl ExportedSpan {
    fn attribute(&self, name: &str) -> Option<String> {
        attribute(&self.span.attributes, name)
    }
}

fn attribute(attributes: &[KeyValue], name: &str) -> Option<String> {
    let found = attributes.iter().find(|known| known.key == name)?;
    match found.value.clone() {
        Some(AnyValue {
            value: Some(Inner::StringValue(text)),
        }) => Some(text),
        Some(AnyValue {
            value: Some(Inner::IntValue(integer)),
        }) => Some(integer.to_string()),
        other => panic!("{name}: {other:?}"),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// All that arrived at a collector.
fn exported(collector: &Receiver) -> Vec<ExportedSpan> {
    let mut spans = Vec::new();
    for arrived in collector.arrived() {
        assert!(
            arrived.line.starts_with("POST /v1/traces "),
            "{}",
            arrived.line
        );
        assert_eq!(arrived.header("authorization"), Some("Bearer of-the-test"));
        let sent = ExportTraceServiceRequest::decode(&arrived.body[..]).expect("protobuf");
        for resource in sent.resource_spans {
            let of = resource.resource.expect("a resource").attributes;
            let service = attribute(&of, "service.name").expect("a name");
            assert_eq!(
                attribute(&of, "deployment.environment.name").as_deref(),
                Some("test")
            );
            let all = resource
                .scope_spans
                .into_iter()
                .flat_map(|scope| scope.spans);
            spans.extend(all.map(|span| ExportedSpan {
                service: service.clone(),
                span,
            }));
        }
    }
    spans
}

fn variables(collector: &Receiver) -> Environment {
    vec![
        ("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url("")),
        (
            "OTEL_EXPORTER_OTLP_HEADERS",
            "authorization=Bearer of-the-test".to_owned(),
        ),
        (
            "OTEL_RESOURCE_ATTRIBUTES",
            "deployment.environment.name=test".to_owned(),
        ),
        ("OTEL_BSP_SCHEDULE_DELAY", "50".to_owned()),
    ]
}

#[tokio::test]
async fn a_request_its_scripts_and_its_delivery_attempt_share_one_trace() {
    let collector = Receiver::start(Reply::Status(200, "")).await;
    let hook = Receiver::start(Reply::Status(200, "")).await;
    let app = here().await;
    let wanted = json!({"url": hook.url("/hook"), "event_types": ["budget.funded"]});
    let path = format!("{HOOKS}?tenant_id=umbra");
    app.post_as_admin(&path, wanted).await.expect(201);
    let prefix = app.store.keys().prefix();
    let admin = [&["--admin-keys", ADMIN_KEY][..], LONG_REDIS_TIMEOUT].concat();
    let replica = Replica::start_in(variables(&collector), &app.redis_url, prefix, &admin);
    let _dispatcher =
        Process::delivering_dispatcher_in(variables(&collector), &app.redis_url, prefix);
    replica.ready().await;
    let amount = json!({"unit": "TOKENS", "amount": 1});
    let funded = http::client()
        .post(format!("http://{}{FUND}", replica.address))
        .header("X-Admin-API-Key", ADMIN_KEY)
        .header("X-Idempotency-Key", "once")
        .header("traceparent", format!("00-{TRACE}-{CALLER}-01"))
        .json(&json!({"operation": "CREDIT", "amount": amount}))
        .send()
        .await
        .expect("a response");
    assert_eq!(funded.status(), 200);
    assert_eq!(funded.headers()["x-service-trace-id"], TRACE);
    let request_id = funded.headers()["x-request-id"]
        .to_str()
        .expect("text")
        .to_owned();

    let spans = eventually("the spans of both processes arrive", || async {
        let spans = exported(&collector);
        let of_trace = spans.iter().filter(|it| hex(&it.span.trace_id) == TRACE);
        let of_trace: Vec<_> = of_trace.cloned().collect();
        let is_there = |name: &&str| of_trace.iter().any(|it| it.span.name == *name);
        let all = ["POST /v1/admin/budgets/fund", "fund", "webhook attempt"];
        all.iter().all(is_there).then_some(of_trace)
    })
    .await;
    let named = |name: &str| -> &ExportedSpan {
        let found = spans.iter().find(|it| it.span.name == name);
        found.unwrap_or_else(|| panic!("no {name} among {spans:#?}"))
    };

    let request = named("POST /v1/admin/budgets/fund");
    assert_eq!(hex(&request.span.parent_span_id), CALLER);
    let attributes = [
        ("http.route", "/v1/admin/budgets/fund"),
        ("http.response.status_code", "200"),
        ("budget.request_id", &request_id),
    ];
    for (name, value) in attributes {
        assert_eq!(request.attribute(name).as_deref(), Some(value), "{name}");
    }

    let script = named("fund");
    assert_eq!(script.span.parent_span_id, request.span.span_id);
    assert_eq!(script.attribute("db.system.name").as_deref(), Some("redis"));
    assert!(script.span.start_time_unix_nano >= request.span.start_time_unix_nano);
    assert!(script.span.end_time_unix_nano <= request.span.end_time_unix_nano);

    let attempt = named("webhook attempt");
    assert_eq!(attempt.service, "budget-dispatcher");
    let links: Vec<_> = attempt
        .span
        .links
        .iter()
        .map(|link| &link.span_id)
        .collect();
    assert_eq!(links, [&request.span.span_id]);
    assert_eq!(
        attempt.attribute("http.response.status_code").as_deref(),
        Some("200")
    );
    let arrived = hook.arrived();
    let parent = arrived[0].header("traceparent").expect("one").to_owned();
    assert_eq!(
        parent,
        format!("00-{TRACE}-{}-01", hex(&attempt.span.span_id))
    );
    for arrived in collector.arrived() {
        let text = String::from_utf8_lossy(&arrived.body).into_owned();
        assert!(
            !text.contains(ADMIN_KEY) && !text.contains("whsec_"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn a_request_without_a_traceparent_is_sampled_as_configured() {
    let app = here().await;
    let prefix = app.store.keys().prefix();
    let (all, none) = (
        Receiver::start(Reply::Status(200, "")).await,
        Receiver::start(Reply::Status(200, "")).await,
    );
    let mut off = variables(&none);
    off.push(("OTEL_TRACES_SAMPLER", "always_off".to_owned()));
    off.push(("OTEL_SERVICE_NAME", "mine".to_owned()));
    let mut on = variables(&all);
    on.push(("OTEL_SERVICE_NAME", "mine".to_owned()));
    let mut traces = Vec::new();
    for environment in [off, on] {
        let replica = Replica::start_in(environment, &app.redis_url, prefix, &[]);
        replica.ready().await;
        let url = format!("http://{}/v1/balances", replica.address);
        let refused = http::get(url).await.expect("a response");
        assert_eq!(refused.status(), 401);
        let trace = refused.headers()["x-service-trace-id"]
            .to_str()
            .expect("text");
        traces.push(trace.to_owned());
        // Remaining spans are exported at shutdown.
        replica.process.terminate();
        eventually("it has ended", || async {
            http::get(format!("http://{}/live", replica.address))
                .await
                .err()
        })
        .await;
    }
    let mine = eventually("the span of the request arrives", || async {
        let mut spans = exported(&all).into_iter();
        spans.find(|it| hex(&it.span.trace_id) == traces[1])
    })
    .await;
    assert_eq!(
        (mine.service.as_str(), mine.span.name.as_str()),
        ("mine", "GET /v1/balances")
    );
    assert!(mine.span.parent_span_id.is_empty());
    assert!(none.arrived().is_empty());
}
