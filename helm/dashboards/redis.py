"""Redis: how long scripts take, what costs more round trips, memory and failovers."""

UID = "budget-authority-redis"
TITLE = "Budget authority: Redis"
ABOUT = "Scripts, round trips, memory and failovers of Redis, as the processes see them."


def quantile(share):
    return f"histogram_quantile({share}, sum by (le, script) (rate(budget_script_duration_seconds_bucket{{$own}}[$__rate_interval])))"


ROWS = [
    (
        "Scripts",
        [
            ("Duration, median", "Median of round trips by script.", "s", [(quantile("0.5"), "{{script}}")]),
            ("Duration, 99th percentile", "99th percentile of round trips by script.", "s", [(quantile("0.99"), "{{script}}")]),
            (
                "Calls",
                "Calls a second by script. Those of the admin plane by their folder.",
                "ops",
                [("sum by (script) (rate(budget_script_duration_seconds_count{$own}[$__rate_interval]))", "{{script}}")],
            ),
            (
                "Time in scripts",
                "Seconds that calls take in a second, by script. On one node they share one thread.",
                "s",
                [("sum by (script) (rate(budget_script_duration_seconds_sum{$own}[$__rate_interval]))", "{{script}}")],
            ),
            (
                "Extra round trips",
                "Round trips beyond the first of a request, by reason.",
                "ops",
                [("sum by (reason) (rate(budget_extra_round_trips_total{$own}[$__rate_interval]))", "{{reason}}")],
            ),
            (
                "Expired holds",
                "Reservations that the sweeper expired, and those that requests expired since they lacked funds, a second.",
                "ops",
                [
                    ("sum(rate(budget_sweep_expired_total{$own}[$__rate_interval]))", "sweeper"),
                    ("sum(rate(budget_request_sweep_expired_total{$own}[$__rate_interval]))", "requests"),
                ],
            ),
        ],
    ),
    (
        "Servers",
        [
            (
                "Memory",
                "Share of maxmemory that the fullest master uses. From 0.85 on denials are only counted, from 0.9 on creates are refused.",
                "percentunit",
                [("max by (instance) (budget_redis_memory_used_ratio{$own})", "{{instance}}")],
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
                "Masters",
                "Masters that do not respond, and changes of a master.",
                "short",
                [
                    ("max(budget_redis_primaries_unreachable{$own})", "unreachable"),
                    ("sum(increase(budget_redis_primary_changes_total{$own}[$__rate_interval]))", "changes"),
                ],
            ),
            (
                "Deployment's record",
                "1 while the deployment's record is missing or differs, so that requests are refused.",
                "short",
                [("max by (instance) (budget_deployment_record_differs{$own})", "{{instance}}")],
            ),
            (
                "Clock",
                "Jumps of Redis's clock, and whether sweep, key expiry and retention are halted for one.",
                "short",
                [
                    ("sum(increase(budget_clock_jumps_total{$own}[$__rate_interval]))", "jumps"),
                    ("max(budget_clock_halted{$own})", "halted"),
                ],
            ),
        ],
    ),
]
