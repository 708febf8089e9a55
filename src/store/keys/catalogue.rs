//! The catalogue of keys. No key grows without bound: indexes and logs are per tenant and day.

use super::keys;

keys! { deployment "" {
    /// `layout`, `partitions`, `secret` and `dialect` of the deployment; *`usage_from_ms`* (the first day of which all usage was counted).
    meta: hash = ("meta"), "never";
}}

keys! { directory "{dir}:" {
    /// All tenants, in order of their ids. A tenant is entered before it is recorded.
    directory: zset = ("tenants"), "never";
    /// All API keys by creation time. A key is entered before it is recorded.
    api_key_directory: zset = ("apikeys"), "never; an entry whose key was not recorded at once";
    /// All webhook subscriptions, in order of their ids. One is entered as it is recorded, or else by a dispatcher, and leaves
    /// after it is deleted.
    webhook_directory: zset = ("webhooks"), "with the subscription";
    /// The issuers of evidence, past ones included, by the numbers that records use for them: `<from_ms> <until_ms or open> <server id>
    /// <signer>`.
    issuers: hash = ("issuers"), "never";
    /// The dispatchers by the time until which each counts as alive.
    dispatchers: zset = ("dispatchers"), "an entry when its time is over";
    /// The console's sessions of the holder of a key, `key:<key_id>` or `admin:<name>`, by the digest of the cookie: `<when it ends, in
    /// milliseconds> <digest of the key>`.
    console_sessions: hash = ("console:" holder), "TTL: eight hours after the last one began";
}}

keys! { partition {
    /// A tenant's status, settings and defaults.
    ///
    /// Also: `status` (`ACTIVE`, `SUSPENDED`, `CLOSED`), *`close_correlation_id`*, *`closed_told`*, *`day`* (the last one
    /// registered), *`bytes_full`* (since commits or extensions stored too many bytes: when that minute ends, the limit, how
    /// many), *`longest_life_ms`* (if an extension gave a reservation more than 41 days in all), *`policies`* (96
    /// random bits, new with each change of a policy), *`thresholds`* (millionths, ascending; absent: 80, 95 and 100 %),
    /// *`watched_rates`* (`<metric>:<limit>:<window>`, blanks between).
    tenant: hash = ("tenant:" tenant), "never";
    /// The partition's tenants, in order of their ids.
    tenants: zset = ("tenants"), "never";
    /// The partition's tenants by the digest that ids of their events have.
    tenant_ids: hash = ("tenantids"), "never";
    /// One API key without its secret.
    ///
    /// Also: `hash` (SHA-256 of the whole text, base64url), `permissions` (a blank on either side of each), *`scope_filter`*
    /// (one entry per line).
    api_key: hash = ("apikey:" key_id), "never";
    /// A tenant's API keys by creation time.
    api_keys: zset = ("apikeys:" tenant), "never";
    /// `<tenant>:<key_id>` of API keys whose expiry event is pending, by expiry time.
    expiring: zset = ("expiring"), "an entry with its event";
    /// One policy.
    ///
    /// Also: `scope_pattern` is in lower case; *`caps`* is JSON.
    policy: hash = ("policy:" policy_id), "never";
    /// A tenant's policies, in order of their ids.
    policies: zset = ("policies:" tenant), "never";
    /// A tenant's policies by name.
    policy_names: hash = ("policy_names:" tenant), "never";
    /// The last changes of a tenant's policies, newest first: `<version> <policy_id>`.
    policy_changes: list = ("policy_changes:" tenant), "the oldest beyond 100";
    /// A tenant's counts of the current minute: `minute_ms`; under policies with rate limits `reserved <policy_id> <scope>` and
    /// `committed <policy_id> <scope>`; `bytes` that requests stored of their own.
    rates: hash = ("rates:" tenant), "TTL of 2 minutes";
    /// One ledger.
    ///
    /// Always `remaining = allocated - spent - reserved - debt`.
    ///
    /// Also: `base_spent` and `base_debt` (what purged records charged and owed), *`announced`* (empty, or the highest
    /// threshold whose rise was announced, in millionths, when, and when the ledger was announced as exhausted; 0 for none),
    /// *`over_limit_by`* (the reservation or usage event that took it over its limit, until it is no longer over it),
    /// `terms` (if empty, `turns_at_ms`, `limits` and `observes` are, and `epoch` is 0, so scripts do not read them; else 1),
    /// `turns_at_ms` (when it turns next; empty: never, 0: when it is used, 1: not planned yet), `observes` (1, or empty), `epoch`
    /// (how often it has begun anew), *`metadata`*, *`closed_at_ms`*.
    budget: hash = ("budget:" tenant ":" unit ":" scope), "never";
    /// A tenant's ledgers, in order: `<scope> <unit index> <UNIT>`.
    budgets: zset = ("budgets:" tenant), "never";
    /// The partition's ledgers in debt, `debt <tenant> <UNIT> <scope>` by debt, and over their limit, `over …` by
    /// `-debt - 1`.
    over_limit_or_in_debt: zset = ("over_limit_or_in_debt"), "an entry when the ledger is funded";
    /// The partition's ledgers that turn by themselves, `<tenant> <UNIT> <scope>` by the time of their next turn.
    turns: zset = ("turns"), "an entry when nothing moved in its ledger since the last turn, or it does not turn any more";
    /// One reservation with its idempotency entries, or the outcome of a dry run.
    ///
    /// Fields: `status` (`ACTIVE`, `COMMITTED`, `RELEASED`, `EXPIRED`, or `DRY_RUN`), `create_hash`, `tenant`, `unit`,
    /// `estimate`, `scope_path`, `budgeted` (depths of the scopes that have a ledger; the root is 1), `overage_policy`,
    /// `created_at_ms`, `expires_at_ms`, `grace_ms`, `max_extensions`, `action_kind`, `action_name`, *`action_tags`*,
    /// *`subject`* (only if the scope path leaves it open), `idempotency_key`, *`key_id`* (the API key that created it), *`metadata`*, *`create_inputs`* (for
    /// evidence, as `inputs` of `unsigned`), *`policy_id`* and *`caps`* of the policy that applied, *`counting_policy`* (the same
    /// id, if that policy counts commits), and `create.<depth>`:
    /// each ledger after it, as `allocated spent reserved [debt limit over]`.
    ///
    /// A commit adds `charged`, `finalized_at_ms`, `finish` (digest of the key, then of the payload), `commit.<depth>`,
    /// *`debt.<depth>`*, *`epoch.<depth>`* (how often the ledger had begun anew), *`metrics`*, *`committed_metadata`*; for evidence
    /// *`end_inputs`*, *`end_key`* and *`actual`*. A release adds the same with `release.<depth>` and *`release_reason`*, without `charged`. Expiry adds `expired_at_ms`. While the clock is
    /// behind the last entry of `unsigned`, *`queued`*: the place of the record's own entry.
    ///
    /// An extension adds `extensions`, `extended_ms`, `extend.<key digest>` (payload hash and expiry), `extend.<key
    /// digest>.<depth>`, and the latest *`extended_metadata`*. These stay as long as the record, so there are 1,000
    /// at most (a setting), whatever a tenant's limit.
    ///
    /// A refund adds `refunded`, `refunds` (a line each: time, amount, and `depth:spent:debt` of each ledger that got something
    /// back), `refund.<key digest>` (payload hash, sums and ledgers) and the latest *`refund_metadata`*; 32 at most.
    ///
    /// A dry run has the fields of a decision, and `create.<depth>`.
    reservation: hash = ("rsv:" reservation_id), "after the retention of reservations; a dry run by a TTL of 24 hours";
    /// A day's reservations of a tenant by creation time.
    reservations: zset = ("rsvs:" tenant ":" day), "with its last reservation";
    /// One usage event.
    ///
    /// Fields: those of a reservation that was created and committed in one, without times of expiry: `status` `APPLIED`,
    /// `create_hash`, `actual`, `charged`, `create.<depth>`, *`debt.<depth>`*, *`client_time_ms`*, …
    usage_event: hash = ("usage_event:" event_id), "after the retention of usage events";
    /// A day's usage events of a tenant by time.
    usage_events: zset = ("usage_events:" tenant ":" day), "with its last usage event";
    /// When the latest charge or refund was made of each tenant whose records were removed for their age.
    purged: hash = ("purged"), "never";
    /// What a tenant used on a day, charged and refunded, by combination of unit, scope, API key and action.
    ///
    /// A field is `<UNIT> <scope below the tenant, or -> <key_id> <bytes of kind> <kind> <name>`, its value `<charged> <count>[
    /// <refunded>]`, with ` +` behind it if a sum went beyond 64 bits. `combinations`: how many there are, and their bytes. Above
    /// 20,000, or 4 MiB, new ones are counted in `<UNIT> other`.
    usage: hash = ("usage:" tenant ":" day), "when its day is merged into the month";
    /// The combinations beyond the first 500 of a day, by the first 16 bits of their SHA-1, modulo 32.
    more_usage: hash = ("usage:" tenant ":" day ":" number), "with the hash of the day";
    /// What a tenant used in a month (`yyyymm`), in days that are no longer kept one by one; as `usage`. `until` (the last of
    /// them), `merges` (how many steps have moved combinations here).
    usage_of_month: hash = ("usage_month:" tenant ":" month), "TTL: the retention of months of usage";
    /// The combinations beyond the first 500 of a month, as `more_usage`.
    more_usage_of_month: hash = ("usage_month:" tenant ":" month ":" number), "TTL: the retention of months of usage";
    /// One decision, kept for its idempotency key.
    ///
    /// Fields: `status`, `create_hash`, `tenant`, `unit`, `estimate`, `scope_path`, `created_at_ms`, `decision`, then
    /// `reason_code`, or `budgeted` and *`caps`*; for evidence *`inputs`* and *`request`*.
    decision: hash = ("decision:" decision_id), "TTL of 24 hours";
    /// Bytes of a tenant's keys with a TTL of 24 hours, which no index lists, by the hour since 1970 in which they were written:
    /// decisions, dry runs, stored responses of admin requests.
    short_lived: hash = ("short_lived:" tenant), "TTL of 25 hours; a field after as long";
    /// A tenant's active reservations by due time: expiry and grace period.
    due: zset = ("due:" tenant), "an entry when the reservation ends";
    /// Of those, the ones whose grace period is not the usual 5 seconds, by expiry.
    other_graces: zset = ("due:" tenant ":other_graces"), "an entry when the reservation ends";
    /// The partition's tenants by their earliest due time, or an earlier one.
    due_tenants: zset = ("due"), "an entry when nothing of the tenant is due";
    /// Reservations that cannot be expired, by the time at which that was found.
    quarantine: zset = ("quarantine"), "by an operator";
    /// `<tenant>:<day>` by the time at which retention looks at that day's keys next.
    days: zset = ("days"), "an entry when nothing of the day is left";
    /// A day's events of a tenant, as facts; those of no tenant are under `__system__` in partition `000`.
    ///
    /// Fields of an entry: `type`, `at_ms`, *`scope`*, *`kind`* of the action, the request cause (*`request_id`*,
    /// *`trace_id`*, …), and the event's own `data.…` and `metadata.…`.
    events: stream = ("events:" tenant ":" day), "whole, after the retention of events";
    /// Pointers into the event logs, in the order in which events were emitted.
    ///
    /// Fields of an entry: `tenant`, `day`, `first` (the first entry in the log) and `count`.
    outbox: stream = ("outbox"), "trimmed by age, never beyond the cursor of the view";
    /// Evidence that is to be signed, in the order of the requests.
    ///
    /// Fields of an entry: `kind` (`create`, `end`, `decision`, `dry_run`, `refusal`) and `digest` of the request; of a create or end
    /// the `id` of the reservation, whose record has the rest; of others `inputs` (format, issuer, trace, what the client named) and
    /// all else that the envelope is made of.
    unsigned: stream = ("unsigned"), "an entry when its envelope is written";
    /// Entries of that stream that nobody can sign: their fields, `entry` (their place there), `why`, and `oldest_ms`
    /// (the time of the oldest entry up to this one, since they come in no order).
    unsignable: stream = ("unsignable"), "by an operator; the oldest beyond 10,000";
    /// Refusals of a tenant in the current minute of which evidence was queued: `<minute_ms> <count>`.
    unsigned_refusals: string = ("unsigned:" tenant), "TTL of 2 minutes";
    /// A tenant's denials of the current minute: `minute_ms`, `count`, `suppressed`, the facts of the first suppressed one.
    denials: hash = ("denials:" tenant), "with its rollup, or when the next minute overwrites it";
    /// The tenants with a rollup of denials to be emitted, by the end of the minute.
    denials_due: zset = ("denials"), "an entry with its rollup";
    /// Failures of one API key, or of `__system__:unknown`: `minute_ms` of the last event, and `count`, `context` and `reason`
    /// of the failures since.
    auth_failures: hash = ("authfail:" member), "TTL of a minute, or with its rollup";
    /// `<tenant>:<key_id>` with a rollup of failures to be emitted, by the end of the minute.
    auth_failures_due: zset = ("authfail"), "an entry with its rollup";
    /// Outcomes of a tenant's requests and reservations of late, or of requests with nobody's API keys.
    ///
    /// Fields: `<width>.<place>` for each bucket of `width` seconds: its number since 1970; decisions, denials; reservations that
    /// ended, that expired; attempts with API keys, refusals of these. `<metric> <limit> <window>`: when that limit last emitted an
    /// event, and whether it was met since (`1`).
    traffic: hash = ("traffic:" tenant), "TTL of twice the longest window that is watched";
    /// Tenants with denials, expiries or refused keys in a window, by the time at which they are looked at next.
    traffic_due: zset = ("traffic"), "an entry when nothing of that is left in a window";
    /// Recent charges of a watched ledger.
    ///
    /// Fields: `<window>.<place>` for each ten buckets of a tenth of a window in seconds: their number since 1970, and the amounts.
    /// `<limit> <window>`: that the limit was exceeded at the last evaluation.
    burn: hash = ("burn:" tenant ":" unit ":" scope), "TTL of 14 times the longest window that is watched";
    /// `<tenant> <UNIT> <scope>` of ledgers that are watched and were charged of late, by the time at which they are looked at next.
    burning: zset = ("burning"), "an entry when nothing of that is left in 13 windows";
    /// When dispatchers last reported an outage of Redis, `outage`, and that it was slow, `latency`; in partition `000`.
    store_reports: hash = ("storereports"), "never";
    /// Refused admin requests of a tenant's keys, or of unknown callers, in the current minute: `minute_ms`, `count`,
    /// `suppressed`, the first suppressed one.
    audit_failures: hash = ("auditfail:" tenant), "with its rollup, or when the next minute overwrites it";
    /// Tenants and `__unauth__` with a rollup of refused requests to be written, by the end of the minute.
    audit_failures_due: zset = ("auditfail"), "an entry with its rollup";
    /// A day's audit entries of a tenant; those of no tenant are under `__admin__` and `__unauth__`.
    ///
    /// Fields of an entry: `sequence` (numbered without gaps), `at_ms`, and the request with its outcome.
    audit: stream = ("audit:" tenant ":" day), "whole, after the retention of audit entries";
    /// A tenant's audit chain: `sequence` of the last entry; `sealed_sequence`, `sealed_hash`, `sealed_day` and
    /// `sealed_entry` of the last sealed one; `anchor_sequence` and `anchor_hash` of the last one removed, `anchor_dropped` in
    /// all.
    chain: hash = ("chain:" tenant), "never";
    /// The seals of a day's audit entries by number; `last`: number and hash of the last one.
    seals: hash = ("seals:" tenant ":" day), "with the audit log of the day";
    /// Tenants and sentinels whose audit chain has entries without a seal.
    unsealed: set = ("unsealed"), "an entry when its chain is sealed";
    /// The stored response of an admin request, by the digest of its idempotency key.
    ///
    /// Fields: `payload_hash`, `count`, and `1`, `2`, … for the words of the script's reply.
    idempotency: hash = ("idem:" tenant ":" digest), "TTL of 24 hours; of a funding by retention after 24 hours";
    /// The keys of entries that keep a retry from moving money again, by the time from which retention deletes them. They have no
    /// TTL, because a jump of the clock would end it.
    idempotency_due: zset = ("idemdue"), "an entry with its key";
    /// The intent of a tenant's close: `phase`, `offset`, the request cause, what each ledger got back, and the audit entry of
    /// the request while it waits.
    closing: hash = ("closing:" tenant), "with the end of the close";
    /// Tenants whose close has not ended, by the time from which a dispatcher resumes it.
    closings: zset = ("closings"), "an entry with its intent";
    /// The claim of a bulk action: the rows, the request cause, `until_ms` and `lease_ms` of its lease; at the end
    /// `response`.
    bulk: hash = ("bulk:" tenant ":" digest), "by retention, 15 minutes after the end of the action";
    /// `<tenant>:<digest>` of bulk actions that have not ended, by the time from which a dispatcher resumes them.
    bulks: zset = ("bulks"), "an entry with the end of the action";
    /// The outcomes of the partition's rows of a bulk action.
    bulk_rows: hash = ("bulkrow:" claim_id), "by retention, after 48 hours";
    /// One webhook subscription, its secrets encrypted.
    ///
    /// Also: `signing_secret` and *`headers`* (encrypted), *`header_names`*, `watched` (thresholds and limits, while active),
    /// `event_types` and *`event_categories`* (blanks between), `version` (rises with each change of settings), `since` (the
    /// outbox entry behind which events are for it), `since_ms` (the same as a time, for other partitions), *`epoch`* (how often it
    /// has stopped being `ACTIVE`), *`failing_since_ms`* (of the last failures in a row, when the first of them was counted).
    webhook: hash = ("webhook:" subscription_id), "when it is deleted";
    /// An owner's subscriptions, in order of their ids. The operator's owner is `__system__`.
    webhooks: zset = ("webhooks:" owner), "an entry with its subscription";
    /// A mark of an owner's subscriptions: another text after each change of one.
    webhooks_mark: string = ("webhooksmark:" owner), "with the owner's last subscription";
    /// The watch of each active subscription of an owner: utilization thresholds in millionths, and limits of rates as
    /// `<metric>:<limit>:<window>`, with `:<scope filter>` behind that of a burn rate; blanks between.
    watch: hash = ("watch:" owner), "a field with its subscription";
    /// The thresholds and limits that the operator's subscriptions watch, copied to the partition: `union`, `version`, and `pending`,
    /// `after` and `skipped` (a damaged tenant was met) while they are copied. In partition `000` also the source: `source_union`, `source_version`.
    thresholds: hash = ("thresholds"), "never";
    /// Test deliveries of a subscription in the current minute.
    ///
    /// Fields: `until_ms` (the end of the minute), `count`.
    webhook_tests: hash = ("webhooktests:" subscription_id), "TTL of 2 minutes";
    /// Test deliveries of all subscriptions of an owner in the current minute.
    ///
    /// Fields: as of `webhooktests`.
    owner_tests: hash = ("ownertests:" owner), "TTL of 2 minutes";
    /// One delivery of an event to a subscription.
    ///
    /// Fields: `subscription`, `place` of the event (partition, tenant, day, entry), `type` of the event, `trace` (trace id, and flags
    /// where the request had valid ones), `at_ms` (when it was queued), `epoch` of the subscription at that time, *`lane`* (that of a
    /// replay; others are `<subscription>:<partition>:<tenant>`), `attempts`; while it is open *`claim`* (dispatcher, attempt
    /// and time), *`lost`* (attempts in a row without an outcome), *`failures`*; then *`status`* (none while `PENDING`),
    /// *`response_status`*, *`response_time_ms`*, *`error_message`*, *`next_retry_at_ms`* and *`retry_delay_ms`* (by how much it
    /// was put off), *`not_before_ms`* (until when its first attempt was put off), *`completed_at_ms`*.
    delivery: hash = ("delivery:" delivery_id), "TTL of 14 days, after its end";
    /// A day's deliveries of a subscription by the time at which they were queued: a number that rises, and the id.
    deliveries: zset = ("deliveries:" subscription_id ":" day), "TTL of 16 days";
    /// Deliveries that wait for the end of their first attempt, in order; in `…:retries` those that wait for a further one, by
    /// the time at which it is due.
    ///
    /// A lane is `<subscription_id>:<partition>:<tenant>`, `<subscription_id>:replay:<replay_id>` or `<subscription_id>:retries`.
    lane: list = ("lane:" lane), "with its last delivery";
    /// The partition's lanes that have something to be attempted, by the time from which on.
    lanes: zset = ("lanes"), "an entry when all that may be is in flight";
    /// Deliveries in flight, by the time at which the claim of their dispatcher ends.
    claims: zset = ("claims"), "an entry with the outcome of the attempt";
    /// The lane of each delivery in flight; for a retry, `<subscription_id>:retries` and a blank precede it.
    claimed_lanes: hash = ("claimedlanes"), "a field with the outcome of the attempt; all when none is in flight";
    /// How many deliveries of a subscription are open, in flight, in flight as retries, and open of replays: `open`, `flying`,
    /// `retrying`, *`replaying`*; `queued` (how many ever were), `owner`, *`skipped`* (events that were behind for 24 hours).
    ///
    /// While it is behind: `behind <cursor>`, the place in an outbox behind which its events are not queued yet, by the field of
    /// `fanned`; `sources` (how many such places), `missed` (events behind them, by the hour since 1970), `epoch` of the
    /// subscription at that time.
    window: hash = ("window:" subscription_id), "TTL of 40 days after the last event for it";
    /// The partition's subscriptions that are behind, by the time at which it is looked whether they have room.
    behind: zset = ("behind"), "an entry when it has caught up";
    /// How many deliveries of each owner are open.
    open_deliveries: hash = ("open"), "a field with the owner's last open delivery";
    /// How many deliveries of an owner were queued on a day: `<owner> <yyyymmdd>`.
    queued_deliveries: hash = ("queued"), "the oldest fields of an owner beyond 15";
    /// Up to which outbox entry events were given to subscriptions: `own` for those of the partition's tenants. In partition `000`
    /// a field for each partition, for the operator's.
    fanned: hash = ("fanned"), "never";
    /// The claim of the process that chooses events for a replay; then the id of the replay that is in progress.
    replay_lock: string = ("replaylock:" subscription_id), "with the end of the replay; TTL of a minute, then of 24 hours";
    /// A replay some of whose deliveries were not queued, or not attempted yet.
    ///
    /// Fields: `subscription_id`, `epoch` of the subscription, `created_at_ms`, `day`.
    replay: hash = ("replay:" replay_id), "with its last first attempt; TTL of 48 hours";
    /// The deliveries of a replay that are to be queued, in order: id, type of the event, its place and trace.
    replay_events: list = ("replayevents:" replay_id), "with the last that is queued; TTL of 48 hours";
    /// Replays in progress, by when each is looked at again.
    replays: zset = ("replays"), "an entry with the replay";
    /// The rules for addresses of webhook receivers, in partition `000`.
    ///
    /// Fields: `blocked_cidr_ranges` and `allowed_url_patterns` (JSON), `allow_http`, `updated_at_ms`.
    webhook_security: hash = ("webhooksecurity"), "never";
    /// Empty. Written behind a group of writes that waits for replicas (`BUDGET_REDIS_WAIT`), so that a replay waits as well.
    replicated: string = ("replicated"), "TTL of a minute";
    /// A signed envelope, byte for byte as it is served. Its partition is the first ten bits of its id.
    evidence: string = ("evidence:" evidence_id), "TTL: the retention of evidence, from its signing";
    /// Bytes that the envelopes of a tenant take in all partitions, by the day until which they are kept; `never` for those that are kept
    /// for ever.
    envelopes: hash = ("envelopes:" tenant), "a field after its day, with the next envelope";
    /// How many tenants, ledgers (by unit) and subscriptions of the partition have which status.
    ///
    /// Fields: `tenant <STATUS>`, `budget <UNIT> <STATUS>`, `webhook <STATUS>`.
    counts: hash = ("counts"), "never";
    /// The partition's subscriptions whose deliveries fail, by failures in a row.
    failing: zset = ("failing"), "an entry with the first success";
    /// The dispatcher that works on the partition: `owner`, `token`, `until_ms`.
    lease: hash = ("lease"), "never";
}}

keys! { views "{all}:" {
    /// The last outbox entry of each partition that is in the view of events.
    view_cursors: hash = ("cursors"), "never";
    /// A day's rows of a view by time: `<partition> <entry, padded> <tenant>`, and the type of an event.
    view_rows: zset = ("" view ":" day), "TTL: the retention of the log and 2 days";
    /// The same rows of one kind: an event type, a category, or a sentinel.
    view_rows_of_kind: zset = ("" view ":" kind ":" day), "TTL: the retention of the log and 2 days";
    /// A day's rows of a view by the ids that they can be asked for by: `<letter><digest> <at_ms> <row>`. The letters:
    /// correlation `c`, request `r`, trace `t`, resource `o`, API key `k`.
    view_ids: zset = ("" view "_ids:" day), "TTL: the retention of the log and 2 days";
    /// How far each partition is in a view: the time, and the partitions as bits; `all`: how far all of them are.
    watermarks: hash = ("watermarks:" view), "never";
    /// A minute's denied reservations by reason.
    denials_of_minute: zset = ("denials:" minute), "TTL of 2 hours";
}}
