//! Declares metrics: a struct whose fields are registered under their names.

/// Makes of each struct a function `register`. The first lines of a field's documentation are the help text of the metric;
/// `["view"]` names the labels of a vector, `buckets` the bounds of a histogram.
///
/// ```ignore
/// metrics! {
///     /// Metrics of the sweeper.
///     pub struct SweepMetrics {
///         /// Reservations that the sweeper expired.
///         pub expired: IntCounter = "budget_sweep_expired_total",
///         /// How far a view was behind.
///         pub lag_seconds: GaugeVec["view"] = "budget_view_lag_seconds",
///         /// Round trip of a script.
///         pub duration: HistogramVec["script"] buckets [0.001, 0.01] = "budget_script_duration_seconds",
///     }
/// }
/// ```
macro_rules! metrics {
    (
        $(#[doc = $about:literal])+
        $visible:vis struct $name:ident {
            $(
                $(#[doc = $help:literal])+
                $field_visible:vis $field:ident: $kind:ident $([$($label:literal),+])?
                    $(buckets [$($bucket:literal),+ $(,)?])? = $metric:literal,
            )+
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Debug, Clone)]
        $visible struct $name {
            $(
                $(#[doc = $help])+
                #[doc = concat!("\n\n`", $metric, "`")]
                $field_visible $field: prometheus::$kind,
            )+
        }

        impl $name {
            /// Creates the metrics and adds them to `registry`.
            ///
            /// # Errors
            /// When one of the names is taken.
            $visible fn register(registry: &prometheus::Registry) -> prometheus::Result<Self> {
                $(
                    let options = prometheus::Opts::new($metric, concat!($($help),+).trim());
                    let $field = $crate::metrics::metrics!(
                        @new $kind options $([$($label),+])? $(buckets [$($bucket),+])?
                    );
                    registry.register(Box::new($field.clone()))?;
                )+
                Ok(Self { $($field),+ })
            }
        }
    };
    (@new $kind:ident $options:ident buckets [$($bucket:literal),+]) => {{
        let options = prometheus::HistogramOpts::from($options).buckets(vec![$($bucket),+]);
        prometheus::$kind::with_opts(options)?
    }};
    (@new $kind:ident $options:ident) => { prometheus::$kind::with_opts($options)? };
    (@new $kind:ident $options:ident [$($label:literal),+]) => { prometheus::$kind::new($options, &[$($label),+])? };
    (@new $kind:ident $options:ident [$($label:literal),+] buckets [$($bucket:literal),+]) => {{
        let options = prometheus::HistogramOpts::from($options).buckets(vec![$($bucket),+]);
        prometheus::$kind::new(options, &[$($label),+])?
    }};
}
pub(crate) use metrics;
