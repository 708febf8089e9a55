//! The index of commands: which operation each calls, and what it does with the response.

use clap::Command;

use crate::api::operations::OperationId;

/// A command.
#[derive(Debug, Clone, Copy)]
pub(super) struct CommandRow {
    /// Its words, such as `webhook rules show`.
    pub words: &'static str,
    pub operation: OperationId,
    pub action: Action,
    /// How its arguments differ from the inputs of the operation; see [`COMMANDS`].
    pub arguments: &'static str,
    about: &'static str,
    /// Columns of the table of a list, as [`Output::table`](crate::tools::output::Output::table) takes them.
    pub columns: &'static str,
    /// What is printed when there are no rows: what there is none of, and perhaps what to do.
    pub nothing: &'static str,
}

/// The treatment of the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// Prints it.
    Show,
    /// Prints it; a request that changes nothing is not sent.
    Change,
    /// Prints it; the request is sent only with `--yes`.
    Close,
    /// Prints it, and fails if the receiver did.
    Test,
    /// Prints the rows of all pages as a table.
    List,
    /// Prints the budgets of all pages as a tree.
    Tree,
    /// Prints the latest events, and follows them.
    Tail,
    /// Prints the rows that a bulk action did not change.
    Bulk,
    /// Follows the replay to its end.
    Replay,
    Overview,
    /// Prints a report of usage.
    Usage,
    /// Prints what makes up the figures of a budget.
    Why,
    /// Prints what was charged, reservations and usage events in one list.
    Charges,
    /// Prints it as JSON.
    Call,
}

impl Action {
    /// Whether `--limit` bounds the rows that are printed, and not those of a page.
    pub fn limits_rows(self) -> bool {
        matches!(self, Self::List | Self::Usage | Self::Charges)
    }
}

macro_rules! commands {
    ($($words:literal $operation:ident $action:ident $arguments:literal $about:literal
        $(=> $columns:literal $nothing:literal)?;)+) => {
        /// `"words" Operation Action "arguments" "What it does" => "columns" "nothing";`
        ///
        /// Each parameter and member of the operation is a flag, unless an argument says something else: `name` makes it
        /// positional, `name!` required, `!name` leaves it out, `!*` leaves all out, `name:value` gives a default, and
        /// `name=value` a fixed value. `clear:members` lists what `--clear` takes; `funding:member` adds a flag per funding
        /// operation, which `member` of the body names. The value `$tenant` is that of the argument `tenant`, `$scope` the
        /// tenant of the argument `scope`.
        const COMMANDS: &[CommandRow] = &[$(CommandRow {
            words: $words,
            operation: OperationId::$operation,
            action: Action::$action,
            arguments: $arguments,
            about: $about,
            columns: concat!($($columns)?),
            nothing: concat!($($nothing)?),
        }),+];
    };
}

commands! {
    "tenant create"       CreateTenant               Show    "tenant name:$tenant"       "Create a tenant; shows a tenant that exists under the same name";
    "tenant list"         ListTenants                List    ""                          "List tenants"
        => "TENANT=tenant_id, NAME=name, STATUS=status, CREATED=created_at"
        "no tenants; `admin tenant create ID` creates one";
    "tenant show"         GetTenant                  Show    ""                          "Show one tenant";
    "tenant update"       UpdateTenant               Show    "!status"                   "Change name and settings";
    "tenant suspend"      UpdateTenant               Show    "!* status=SUSPENDED"       "Refuse new reservations; existing ones may end";
    "tenant reactivate"   UpdateTenant               Show    "!* status=ACTIVE"          "Lift a suspension";
    "tenant close"        UpdateTenant               Close   "!* status=CLOSED"          "Close a tenant for good: release its holds, close its budgets, end its keys and webhooks";
    "tenant bulk"         BulkActionTenants          Bulk    "action"                    "Suspend, reactivate or close all tenants that the filters select";
    "key create"          CreateApiKey               Show    "permission:reservations:create,reservations:commit,reservations:release,reservations:extend,reservations:list,balances:read" "Create an API key; its secret is shown only once";
    "key list"            ListApiKeys                List    ""                          "List API keys, without secrets"
        => "KEY=key_id, NAME=name, TENANT=tenant_id, STATUS=status, EXPIRES=expires_at, SCOPES=scope_filter, MADE BY=created_by, BEGINS WITH=key_prefix"
        "no API keys; `admin key create --tenant ID --name NAME` creates one";
    "key update"          UpdateApiKey               Change  ""                          "Change name, description, permissions and scopes of a key";
    "key revoke"          RevokeApiKey               Show    ""                          "Revoke a key at once, for good";
    "budget create"       CreateBudget               Show    "scope tenant=$scope"       "Create a budget";
    "budget show"         LookupBudget               Show    "scope"                     "Show one budget";
    "budget list"         ListBudgets                List    ""                          "List budgets"
        => "SCOPE=scope, UNIT=unit, STATUS=status, ALLOCATED=allocated:amount, REMAINING=remaining:amount, RESERVED=reserved:amount, SPENT=spent:amount, DEBT=debt:amount"
        "no budgets; `admin budget create SCOPE --allocated N` creates one";
    "budget tree"         ListBudgets                Tree    "tenant! sort-by=scope sort-dir=asc !limit" "Show a tenant's budgets as a tree, each with what is used: spent, held and owed"
        => ""
        "no budgets; `admin budget create SCOPE --allocated N` creates one";
    "budget fund"         FundBudget                 Show    "scope tenant=$scope funding:operation !operation !amount" "Change the figures of a budget";
    "budget update"       UpdateBudget               Change  "scope clear:commit_overage_policy,period,metadata" "Change overdraft, overage policy, period, limits and enforcement of a budget";
    "budget renew"        FundBudget                 Show    "scope tenant=$scope operation=RENEW !amount !spent" "Begin a new period now";
    "budget increase"     CreateBudgetIncrease       Show    "scope amount reason!"  "Allocate more for a time";
    "budget end-increase" EndBudgetIncrease          Show    "scope"                     "End a temporary increase now";
    "budget bulk"         BulkActionBudgets          Bulk    "funding:action !action !amount" "Fund all budgets of a tenant that the filters select";
    "budget freeze"       FreezeBudget               Show    "scope"                     "Refuse new reservations and funding; existing reservations may end";
    "budget unfreeze"     UnfreezeBudget             Show    "scope"                     "Lift a freeze";
    "policy create"       CreatePolicy               Show    "tenant!"                   "Create a policy";
    "policy list"         ListPolicies               List    "tenant!"                   "List a tenant's policies"
        => "POLICY=policy_id, NAME=name, STATUS=status, PRIORITY=priority:number, PATTERN=scope_pattern"
        "no policies; `admin policy create --tenant ID --name NAME --scope-pattern PATTERN` creates one";
    "policy update"       UpdatePolicy               Change  "clear:description,priority,caps,commit_overage_policy,reservation_ttl_override,rate_limits,effective_from,effective_until" "Change a policy";
    "policy disable"      UpdatePolicy               Show    "!* status=DISABLED"        "Stop applying a policy";
    "policy enable"       UpdatePolicy               Show    "!* status=ACTIVE"          "Apply a disabled policy again";
    "reservation list"    ListReservations           List    "tenant! limit:50 include:key_id" "List a tenant's reservations, the newest first"
        => "RESERVATION=reservation_id, STATUS=status, SCOPE=scope_path, RESERVED=reserved, CHARGED=committed, REFUNDED=refunded, KEY=key_id, CREATED=created_at_ms"
        "no reservations";
    "reservation show"    GetReservation             Show    ""                          "Show one reservation";
    "reservation release" ReleaseReservation         Show    ""                          "Release a reservation on behalf of its owner";
    "reservation refund"  RefundReservation          Show    "amount reason!"            "Give back a part of what a reservation charged";
    "usage-event list"    ListUsageEvents            List    "tenant! limit:50"          "List a tenant's usage events, the newest first"
        => "EVENT=event_id, SCOPE=scope_path, CHARGED=charged, REFUNDED=refunded, KEY=key_id, CREATED=created_at_ms"
        "no usage events";
    "usage-event show"    GetUsageEvent              Show    ""                          "Show one usage event";
    "usage-event refund"  RefundUsageEvent           Show    "amount reason!"            "Give back a part of what a usage event charged";
    "usage"               GetTenantUsage             Usage   "tenant! !format"           "Report what a tenant used: by day, scope, action or API key"
        => ""
        "nothing was used in these days that the filters select: commits and usage events count, active reservations do not yet";
    "usage why"           LookupBudget               Why     "scope"                     "Show what makes up the figures of a budget";
    "charges"             ListUsageEvents            Charges "tenant! !sort-by !sort-dir limit:50" "List committed reservations and usage events together, by the time of their creation, the newest first"
        => "CREATED=created_at_ms, KIND=kind, ID=id, SCOPE=scope_path, ACTION=action, CHARGED=charged, REFUNDED=refunded, KEY=key_id"
        "no charges";
    "webhook create"      CreateWebhookSubscription  Show    "receiver"                  "Subscribe a receiver to events; only this shows its signing secret";
    "webhook list"        ListWebhookSubscriptions   List    ""                          "List subscriptions"
        => "SUBSCRIPTION=subscription_id, TENANT=tenant_id, STATUS=status, FAILURES=consecutive_failures:number, URL=url, TYPES=event_types, CATEGORIES=event_categories"
        "no webhooks; `admin webhook create URL --type TYPE` creates one";
    "webhook show"        GetWebhookSubscription     Show    ""                          "Show one subscription";
    "webhook update"      UpdateWebhookSubscription  Change  "clear:name,description,event_categories,scope_filter,thresholds,headers,retry_policy,disable_after_failures,disable_after_seconds" "Change a subscription";
    "webhook pause"       UpdateWebhookSubscription  Show    "!* status=PAUSED"          "Send no events but tests until it is resumed; pending deliveries fail. A replay can send what is missed";
    "webhook resume"      UpdateWebhookSubscription  Show    "!* status=ACTIVE"          "Send events from now on, after a pause or after failures";
    "webhook delete"      DeleteWebhookSubscription  Show    ""                          "Delete a subscription";
    "webhook test"        TestWebhookSubscription    Test    ""                          "Send a test event now, and show how the receiver responded";
    "webhook deliveries"  ListWebhookDeliveries      List    "limit:50"                  "List deliveries with their outcome, the newest first"
        => "QUEUED=attempted_at, STATUS=status, ATTEMPTS=attempts:number, RESPONSE=response_status:number, MS=response_time_ms:number, TYPE=event_type, EVENT=event_id, NEXT=next_retry_at, ERROR=error_message"
        "no deliveries";
    "webhook replay"      ReplayEvents               Replay  ""                          "Send past events once more, and wait until the first attempts have ended";
    "webhook bulk"        BulkActionWebhooks         Bulk    "action"                    "Pause, resume or delete all subscriptions that the filters select";
    "webhook rules show"  GetWebhookSecurityConfig   Show    ""                          "Show the rules";
    "webhook rules set"   UpdateWebhookSecurityConfig Show   ""                          "Replace all the rules; what is not given gets its default";
    "event tail"          ListEvents                 Tail    "!until !sort-by !sort-dir !limit" "Show the latest events, the newest last; with --follow also new ones";
    "event show"          GetEvent                   Show    ""                          "Show one event";
    "audit search"        ListAuditLogs              List    "search limit:50"           "List audit entries, the newest first"
        => "TIME=timestamp, STATUS=status, TENANT=tenant_id, OPERATION=operation, OBJECT=resource_id, ERROR=error_code, REQUEST=request_id"
        "no audit entries";
    "overview"            GetAdminOverview           Overview ""                         "The whole deployment on one page";
}

/// Words and descriptions of the groups of commands.
const GROUPS: [(&str, &str); 11] = [
    ("tenant", "Tenants: they own budgets and keys"),
    ("key", "API keys of agents and tenants"),
    ("budget", "Budgets: what may be spent"),
    ("policy", "Policies: caps, rate limits, defaults of scopes"),
    ("reservation", "Reservations, at the address of the API"),
    (
        "usage-event",
        "Usage events: charges without a reservation, at the address of the API",
    ),
    ("webhook", "Webhooks: where events are sent"),
    ("webhook rules", "The addresses that receivers may have"),
    ("event", "Events"),
    ("audit", "The audit log: who changed what"),
    (CALL, "Any operation of the API, by its id"),
];

const CALL: &str = "call";

impl CommandRow {
    /// The command of these words.
    pub fn find(words: &str) -> Option<Self> {
        let id = words.strip_prefix(CALL).map(str::trim_start);
        match id.and_then(|id| OperationId::ALL.iter().find(|known| known.as_str() == id)) {
            Some(&operation) => Some(Self {
                words: CALL,
                operation,
                action: Action::Call,
                arguments: "",
                about: operation.operation().declaration.summary,
                columns: "",
                nothing: "",
            }),
            None => COMMANDS.iter().find(|row| row.words == words).copied(),
        }
    }
}

/// The commands of a group; those of `""` are the groups themselves.
pub(super) fn commands_of(group: &str) -> Vec<Command> {
    if group == CALL {
        let command = |id: &OperationId| {
            let about = id.operation().declaration.summary;
            Command::new(id.as_str()).about(about).defer(with_arguments)
        };
        return OperationId::ALL.iter().map(command).collect();
    }
    let name = |words: &'static str| {
        let (parent, name) = words.rsplit_once(' ').unwrap_or(("", words));
        (parent == group).then_some(name)
    };
    let groups = GROUPS.iter().filter_map(|(words, about)| {
        let group = Command::new(name(words)?).about(*about);
        let group = group.subcommand_required(true).arg_required_else_help(true);
        Some(group.defer(with_commands))
    });
    let rows = COMMANDS.iter().filter_map(|row| {
        let command = Command::new(name(row.words)?).about(row.about);
        let command = row.with_arguments(command);
        let below = commands_of(row.words);
        Some(match below.is_empty() {
            true => command,
            // Either its own arguments, or one of the commands below it.
            false => command
                .subcommands(below)
                .args_conflicts_with_subcommands(true)
                .subcommand_negates_reqs(true),
        })
    });
    groups.chain(rows).collect()
}

/// Adds the commands of a group, once it is chosen.
fn with_commands(group: Command) -> Command {
    let mut groups = GROUPS.iter().map(|(words, _)| *words);
    let words = groups.find(|words| words.rsplit(' ').next() == Some(group.get_name()));
    group.subcommands(commands_of(words.unwrap_or_default()))
}

/// Adds the arguments of `admin call OPERATION`, once it is chosen.
fn with_arguments(call: Command) -> Command {
    match CommandRow::find(&format!("{CALL} {}", call.get_name())) {
        Some(row) => row.with_arguments(call),
        None => call,
    }
}
