"""The overview: requests, decisions, Redis and the background work of a deployment."""

UID = "budget-authority"
TITLE = "Budget authority: overview"
ABOUT = "Requests, Redis and the background work of a deployment."

ROWS = [
    (
        "Requests",
        [
            (
                "Requests",
                "Requests a second by status. 4xx are refusals, 5xx failures.",
                "reqps",
                [
                    ("sum by (status) (rate(budget_http_requests_total{$own}[$__rate_interval]))", "{{status}}"),
                ],
            ),
            (
                "Failed share",
                "Share of requests with a 5xx status: Redis is unavailable or full, or a record is corrupt.",
                "percentunit",
                [
                    (
                        'sum(rate(budget_http_requests_total{$own,status="5xx"}[$__rate_interval])) / sum(rate(budget_http_requests_total{$own}[$__rate_interval]))',
                        "failed",
                    ),
                ],
            ),
            (
                "Duration",
                "99th percentile by operation, from the head of a request to the head of its response.",
                "s",
                [
                    (
                        "histogram_quantile(0.99, sum by (le, operation) (rate(budget_http_request_duration_seconds_bucket{$own}[$__rate_interval])))",
                        "{{operation}}",
                    ),
                ],
            ),
            (
                "Operations",
                "Requests a second by operation.",
                "reqps",
                [
                    ("sum by (operation) (rate(budget_http_requests_total{$own}[$__rate_interval]))", "{{operation}}"),
                ],
            ),
            (
                "In flight",
                "Requests without a response, by replica.",
                "short",
                [
                    ("sum by (instance) (budget_http_requests_in_flight{$own})", "{{instance}}"),
                ],
            ),
            (
                "Refused keys and limits",
                "Responses 401 by reason, and requests above a limit by its setting.",
                "reqps",
                [
                    ("sum by (plane, reason) (rate(budget_auth_failures_total{$own}[$__rate_interval]))", "{{plane}} {{reason}}"),
                    ("sum by (limit) (rate(budget_limit_refusals_total{$own}[$__rate_interval]))", "{{limit}}"),
                ],
            ),
        ],
    ),
    (
        "Decisions",
        [
            (
                "Decisions",
                "Decisions of the runtime plane a second. Replays are not counted again.",
                "ops",
                [
                    (
                        "sum by (operation, decision) (rate(budget_decisions_total{$own}[$__rate_interval]))",
                        "{{operation}} {{decision}}",
                    ),
                ],
            ),
            (
                "Denials",
                "Denials a second by reason.",
                "ops",
                [
                    (
                        'sum by (reason) (rate(budget_decisions_total{$own,decision="DENY"}[$__rate_interval]))',
                        "{{reason}}",
                    ),
                ],
            ),
            (
                "Denied share",
                "Share of the reservations and decisions in a unit that are denied.",
                "percentunit",
                [
                    (
                        'sum by (unit) (rate(budget_decisions_total{$own,operation=~"reserve|decide",decision="DENY"}[$__rate_interval]))'
                        ' / sum by (unit) (rate(budget_decisions_total{$own,operation=~"reserve|decide"}[$__rate_interval]))',
                        "{{unit}}",
                    ),
                ],
            ),
            (
                "Commits",
                "Commits a second by how they compare with their hold.",
                "ops",
                [("sum by (outcome) (rate(budget_commits_total{$own}[$__rate_interval]))", "{{outcome}}")],
            ),
            (
                "Budgets in trouble",
                "Times that budgets were exhausted, went over their limit or back, and incurred or repaid debt.",
                "short",
                [
                    (
                        "sum by (type) (increase(budget_events_total{$own,"
                        'type=~"budget.(exhausted|over_limit_entered|over_limit_exited|debt_incurred|debt_repaid)"}[$__rate_interval]))',
                        "{{type}}",
                    ),
                ],
            ),
            (
                "Expired holds",
                "Reservations a second that the sweeper expired, and those that requests expired since they lacked funds.",
                "ops",
                [
                    ("sum(rate(budget_sweep_expired_total{$own}[$__rate_interval]))", "sweeper"),
                    ("sum(rate(budget_request_sweep_expired_total{$own}[$__rate_interval]))", "requests"),
                ],
            ),
        ],
    ),
    (
        "Redis",
        [
            (
                "Scripts",
                "99th percentile of round trips by script.",
                "s",
                [
                    (
                        "histogram_quantile(0.99, sum by (le, script) (rate(budget_script_duration_seconds_bucket{$own}[$__rate_interval])))",
                        "{{script}}",
                    ),
                ],
            ),
            (
                "Extra round trips",
                "Round trips beyond the first of a request, by reason.",
                "ops",
                [
                    ("sum by (reason) (rate(budget_extra_round_trips_total{$own}[$__rate_interval]))", "{{reason}}"),
                ],
            ),
            (
                "Memory of Redis",
                "Share of maxmemory that the fullest master uses. From 0.9 on creates are refused.",
                "percentunit",
                [
                    ("max(budget_redis_memory_used_ratio{$own})", "fullest master"),
                ],
            ),
            (
                "Connections",
                "Connections opened and failed attempts, a second.",
                "ops",
                [
                    ("sum(rate(budget_redis_connections_opened_total{$own}[$__rate_interval]))", "opened"),
                    ("sum(rate(budget_redis_connection_failures_total{$own}[$__rate_interval]))", "failed"),
                ],
            ),
            (
                "Trouble",
                "Masters that do not respond, changes of a master, a differing deployment record, a halted clock.",
                "short",
                [
                    ("max(budget_redis_primaries_unreachable{$own})", "masters unreachable"),
                    ("sum(increase(budget_redis_primary_changes_total{$own}[$__rate_interval]))", "changes of a master"),
                    ("max(budget_deployment_record_differs{$own})", "record differs"),
                    ("max(budget_clock_halted{$own})", "clock halted"),
                ],
            ),
        ],
    ),
    (
        "Background work",
        [
            (
                "Partitions",
                "Partitions by dispatcher. All of them together are 1,024.",
                "short",
                [
                    ("sum by (instance) (budget_partitions_leased{$own})", "{{instance}}"),
                ],
            ),
            (
                "Lags",
                "How far behind the background work is.",
                "s",
                [
                    ("max(budget_sweep_lag_seconds{$own})", "sweep"),
                    ("max(budget_view_lag_seconds{$own})", "views"),
                    ("max(budget_audit_seal_lag_seconds{$own})", "audit seals"),
                    ("max(budget_webhook_lag_seconds{$own})", "webhooks"),
                    ("max(budget_bulk_action_lag_seconds{$own})", "bulk actions"),
                    ("max(budget_tenant_close_lag_seconds{$own})", "tenant closes"),
                    ("max(budget_retention_lag_seconds{$own})", "retention"),
                ],
            ),
            (
                "Failed passes",
                "Passes of workers that failed, a second.",
                "ops",
                [
                    ('sum by (worker) (rate(budget_worker_passes_total{$own,result="failed"}[$__rate_interval]))', "{{worker}}"),
                ],
            ),
            (
                "Swept and removed",
                "Reservations that the sweeper expired, and records that retention removed, a second.",
                "ops",
                [
                    ("sum(rate(budget_sweep_expired_total{$own}[$__rate_interval]))", "expired"),
                    ("sum by (kind) (rate(budget_retention_removed_total{$own}[$__rate_interval]))", "removed {{kind}}"),
                ],
            ),
        ],
    ),
    (
        "Webhooks",
        [
            (
                "Attempts",
                "Attempts a second by outcome and reason.",
                "ops",
                [
                    (
                        "sum by (outcome, reason) (rate(budget_webhook_attempts_total{$own}[$__rate_interval]))",
                        "{{outcome}} {{reason}}",
                    ),
                ],
            ),
            (
                "Delay",
                "Time from an event to the first attempt to deliver it, median and 99th percentile.",
                "s",
                [
                    (
                        "histogram_quantile(0.5, sum by (le) (rate(budget_webhook_delay_seconds_bucket{$own}[$__rate_interval])))",
                        "median",
                    ),
                    (
                        "histogram_quantile(0.99, sum by (le) (rate(budget_webhook_delay_seconds_bucket{$own}[$__rate_interval])))",
                        "99th percentile",
                    ),
                ],
            ),
            (
                "Waiting",
                "Deliveries that have not ended, and subscriptions that are behind.",
                "short",
                [
                    ("sum(budget_webhook_deliveries_open{$own})", "deliveries"),
                    ("sum(budget_webhooks_behind{$own})", "subscriptions behind"),
                ],
            ),
        ],
    ),
    (
        "Processes",
        [
            (
                "Resident memory",
                "By process.",
                "bytes",
                [
                    ("max by (instance) (process_resident_memory_bytes{$own})", "{{instance}}"),
                ],
            ),
            (
                "Open files",
                "By process.",
                "short",
                [
                    ("max by (instance) (process_open_fds{$own})", "{{instance}}"),
                ],
            ),
            (
                "Versions",
                "Processes by version.",
                "short",
                [
                    ("count by (version) (budget_build_info{$own})", "{{version}}"),
                ],
            ),
        ],
    ),
]
