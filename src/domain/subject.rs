//! What a request says of the agent behind it: whom it charges, what is done, and what was measured meanwhile.

use std::collections::BTreeMap;

use smol_str::SmolStr;

use super::fields::{Blank, Form, Read as _, Text, object};
use super::json::{FreeObject, Json};
use super::scope::Level;

/// The tenant, as it is sent.
static TENANT: Form = Form {
    wanted: "1 to 128 characters of A-Z a-z 0-9 _ . -",
    accepts: |text| Level::Tenant.admits(text),
    published: Some(("^[A-Za-z0-9_.-]+$", 1..=128)),
};

/// The value of a level below the tenant, as it is sent.
static VALUE: Form = Form {
    wanted: "1 to 128 characters of A-Z a-z 0-9 _ . - @ +",
    accepts: |text| Level::Workspace.admits(text),
    published: Some(("^[A-Za-z0-9_.@+-]+$", 1..=128)),
};

object! {
    /// Whom a request charges; values exactly as they were sent.
    ///
    /// At least one level is named. Only the scopes derived from it are lower-cased.
    #[derive(Debug, Clone, PartialEq, Eq, Default)]
    pub struct Subject: Read + Serialize {
        /// The customer; must be the tenant of the API key.
        tenant: Option<SmolStr> { form: &TENANT },
        /// A part of the tenant, such as an environment.
        workspace: Option<SmolStr> { form: &VALUE },
        /// An application.
        app: Option<SmolStr> { form: &VALUE },
        /// A workflow inside an application.
        workflow: Option<SmolStr> { form: &VALUE },
        /// An agent.
        agent: Option<SmolStr> { form: &VALUE },
        /// A set of tools.
        toolset: Option<SmolStr> { form: &VALUE },
        /// Labels that the client chooses; stored and returned, without influence on budgets.
        pub dimensions: Option<BTreeMap<String, String>> { entries: ..=16, values: Text::chars(..=256) },
    }
    check |subject, object| {
        if Level::ALL.iter().all(|level| subject.value(*level).is_none()) {
            object.refuse("must name at least one of tenant, workspace, app, workflow, agent, toolset");
        }
    }
}

impl Subject {
    /// From levels and values; `None` if no level is named or a value breaks the character set.
    pub fn from_values<V: Into<SmolStr>>(
        values: impl IntoIterator<Item = (Level, V)>,
    ) -> Option<Self> {
        let values = values.into_iter();
        let members = values.map(|(level, value)| (level.as_str(), Json::String(value.into())));
        Self::from_json(members.collect()).ok()
    }

    /// The value of a level as it was sent.
    pub fn value(&self, level: Level) -> Option<&str> {
        match level {
            Level::Tenant => self.tenant.as_deref(),
            Level::Workspace => self.workspace.as_deref(),
            Level::App => self.app.as_deref(),
            Level::Workflow => self.workflow.as_deref(),
            Level::Agent => self.agent.as_deref(),
            Level::Toolset => self.toolset.as_deref(),
        }
    }
}

object! {
    /// The action of an agent.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Action: Read + Serialize {
        /// Kind of action, such as `llm.completion`.
        pub kind: SmolStr { chars: 1..=64, blank: Blank::Refused },
        /// The action itself, such as the name of a model or tool.
        pub name: SmolStr { chars: 1..=256, blank: Blank::Refused },
        /// Labels that the client chooses.
        pub tags: Option<Vec<String>> { items: ..=10, each: Text::chars(..=64) },
    }
    // Announced for a later release: clients already send it, and nothing depends on it.
    ignore { policy_keys: FreeObject }
}

object! {
    /// Measurements of a client. Stored with the charge, without effect on it.
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
