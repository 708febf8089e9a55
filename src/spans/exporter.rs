//! Exports spans as OTLP over HTTP, configured by the usual `OTEL_*` variables.

use std::env;

use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::{info, warn};

use super::TRACER;
use super::ids::Ids;

const ENDPOINTS: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
];
const PROTOCOLS: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
    "OTEL_EXPORTER_OTLP_PROTOCOL",
];

/// For any other value, the library would silently use its default.
const SAMPLERS: [&str; 6] = [
    "always_on",
    "always_off",
    "traceidratio",
    "parentbased_always_on",
    "parentbased_always_off",
    "parentbased_traceidratio",
];

/// Why spans cannot be exported as the environment says.
#[derive(Debug, thiserror::Error)]
pub enum SpansError {
    /// Another protocol.
    #[error("{variable}: `{value}` is not supported; spans are exported as http/protobuf")]
    Protocol {
        /// The variable.
        variable: &'static str,
        /// Its value.
        value: String,
    },
    /// Another exporter.
    #[error("OTEL_TRACES_EXPORTER: `{0}` is not supported; write otlp or none")]
    Exporter(String),
    /// Another sampler, or an invalid share.
    #[error(
        "{variable}: `{value}` is not supported; OTEL_TRACES_SAMPLER is one of {}, and OTEL_TRACES_SAMPLER_ARG the share of \
         a …traceidratio, from 0 to 1",
        SAMPLERS.join(", ")
    )]
    Sampler {
        /// The variable.
        variable: &'static str,
        /// Its value.
        value: String,
    },
    /// The endpoint or another variable cannot be used.
    #[error("the variables OTEL_EXPORTER_OTLP_* cannot be used")]
    Build(#[from] opentelemetry_otlp::ExporterBuildError),
}

/// The export of a process. Spans of its last seconds are lost unless it is ended.
#[derive(Debug)]
pub struct Export(Option<SdkTracerProvider>);

impl Export {
    /// Exports the remaining spans, for some seconds at most.
    pub async fn end(self) {
        let Some(provider) = self.0 else { return };
        // It waits for its own thread.
        let ended = tokio::task::spawn_blocking(move || provider.shutdown()).await;
        if let Ok(Err(error)) = ended {
            warn!(error = %error, "the last spans were not exported: {error}");
        }
    }
}

/// Starts the export if the environment names an endpoint. `service`: name of the process, unless the environment has one.
///
/// # Errors
/// [`SpansError`] names the variable.
pub fn start(service: &'static str) -> Result<Export, SpansError> {
    if !is_enabled(&given)? {
        return Ok(Export(None));
    }
    // The HTTP client needs a default provider; an error only says that one is installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let exporter = SpanExporter::builder().with_http().build()?;
    let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    let resource = Resource::builder().with_attribute(version);
    let resource = match has_name(&given) {
        true => resource,
        false => resource.with_service_name(service),
    };
    let provider = SdkTracerProvider::builder()
        .with_batch_exporter(exporter)
        .with_id_generator(Ids::default())
        .with_resource(resource.build())
        .build();
    // A process starts once; a second start keeps the first tracer.
    let _ = TRACER.set(provider.tracer("budget-authority"));
    info!("spans are exported over OTLP");
    Ok(Export(Some(provider)))
}

fn given(variable: &str) -> Option<String> {
    env::var(variable).ok().filter(|value| !value.is_empty())
}

fn is_enabled(given: &impl Fn(&str) -> Option<String>) -> Result<bool, SpansError> {
    let is_disabled = given("OTEL_SDK_DISABLED").is_some_and(|it| it.eq_ignore_ascii_case("true"));
    if is_disabled || !ENDPOINTS.iter().any(|name| given(name).is_some()) {
        return Ok(false);
    }
    match given("OTEL_TRACES_EXPORTER").as_deref() {
        None | Some("otlp") => {}
        Some("none") => return Ok(false),
        Some(other) => return Err(SpansError::Exporter(other.to_owned())),
    }
    for variable in PROTOCOLS {
        match given(variable) {
            Some(value) if value != "http/protobuf" => {
                return Err(SpansError::Protocol { variable, value });
            }
            Some(_) => break,
            None => {}
        }
    }
    check_sampler(given)?;
    Ok(true)
}

fn check_sampler(given: &impl Fn(&str) -> Option<String>) -> Result<(), SpansError> {
    let Some(sampler) = given("OTEL_TRACES_SAMPLER") else {
        return Ok(());
    };
    let refused = |variable, value| Err(SpansError::Sampler { variable, value });
    if !SAMPLERS.contains(&sampler.as_str()) {
        return refused("OTEL_TRACES_SAMPLER", sampler);
    }
    if !sampler.ends_with("traceidratio") {
        return Ok(());
    }
    let share = given("OTEL_TRACES_SAMPLER_ARG").unwrap_or_default();
    match share.parse::<f64>() {
        Ok(number) if (0.0..=1.0).contains(&number) => Ok(()),
        _ => refused("OTEL_TRACES_SAMPLER_ARG", share),
    }
}

fn has_name(given: &impl Fn(&str) -> Option<String>) -> bool {
    let attributes = given("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
    let mut attributes = attributes.split(',').map(str::trim);
    given("OTEL_SERVICE_NAME").is_some() || attributes.any(|it| it.starts_with("service.name="))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enabled(variables: &[(&str, &str)]) -> Result<bool, String> {
        let given = |name: &str| {
            let mut variables = variables.iter();
            let found = variables.find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        is_enabled(&given).map_err(|error| error.to_string())
    }

    const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318");

    #[test]
    fn spans_are_exported_if_an_endpoint_is_set_and_tracing_is_not_disabled() {
        assert_eq!(enabled(&[]), Ok(false));
        assert_eq!(enabled(&[ENDPOINT]), Ok(true));
        let traces = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1:1/x");
        assert_eq!(enabled(&[traces]), Ok(true));
        for off in [
            ("OTEL_SDK_DISABLED", "TRUE"),
            ("OTEL_TRACES_EXPORTER", "none"),
        ] {
            assert_eq!(enabled(&[ENDPOINT, off]), Ok(false), "{off:?}");
        }
        let otlp = [
            ENDPOINT,
            ("OTEL_TRACES_EXPORTER", "otlp"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
        ];
        assert_eq!(enabled(&otlp), Ok(true));
    }

    #[test]
    fn unsupported_values_are_refused() {
        let grpc = ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
        let refused = enabled(&[ENDPOINT, grpc]).expect_err("no such protocol");
        assert!(
            refused.contains("OTEL_EXPORTER_OTLP_PROTOCOL: `grpc`"),
            "{refused}"
        );
        let zipkin = enabled(&[ENDPOINT, ("OTEL_TRACES_EXPORTER", "zipkin")]);
        assert!(zipkin.expect_err("no such exporter").contains("zipkin"));
        let traces = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf");
        assert_eq!(enabled(&[ENDPOINT, traces, grpc]), Ok(true));
        let ratio = ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio");
        for (variable, value, sampler) in [
            ("OTEL_TRACES_SAMPLER", "xray", None),
            ("OTEL_TRACES_SAMPLER_ARG", "", Some(ratio)),
            ("OTEL_TRACES_SAMPLER_ARG", "1.5", Some(ratio)),
        ] {
            let given = [Some(ENDPOINT), Some((variable, value)), sampler];
            let given: Vec<_> = given.into_iter().flatten().collect();
            let refused = enabled(&given).expect_err("no such sampler");
            let expected = format!("{variable}: `{value}`");
            assert!(refused.starts_with(&expected), "{refused}");
        }
        let share = ("OTEL_TRACES_SAMPLER_ARG", "0.25");
        assert_eq!(enabled(&[ENDPOINT, ratio, share]), Ok(true));
    }
}
