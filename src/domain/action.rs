//! What is done, and what a client measured while it was done.

use super::fields::{Blank, Text, object};
use super::json::FreeObject;

object! {
    /// What an agent is about to do, or did.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Action: Read + Serialize {
        /// Kind of action, such as `llm.completion`.
        pub kind: String { chars: 1..=64, blank: Blank::Refused },
        /// The action itself, such as the name of a model or tool.
        pub name: String { chars: 1..=256, blank: Blank::Refused },
        /// Labels that the client chooses.
        pub tags: Option<Vec<String>> { items: ..=10, each: Text::chars(..=64) },
    }
    // Announced for a later release: clients already send it, and nothing depends on it.
    ignore { policy_keys: FreeObject }
}

object! {
    /// What a client measured. Stored with the charge, without influence on it.
    #[derive(Debug, Clone, PartialEq, Eq, Default)]
    pub struct Metrics: Read + Serialize {
        /// Tokens read.
        pub tokens_input: Option<i64> { range: 0.. },
        /// Tokens written.
        pub tokens_output: Option<i64> { range: 0.. },
        /// How long the action took, in milliseconds.
        pub latency_ms: Option<i64> { range: 0.. },
        /// Exact version of the model.
        pub model_version: Option<String> { chars: ..=128 },
        /// Further measurements: any JSON object.
        pub custom: Option<FreeObject>,
    }
}
