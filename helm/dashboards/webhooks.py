"""Webhooks: from an event to its delivery."""

UID = "budget-authority-webhooks"
TITLE = "Budget authority: webhooks"
ABOUT = "Events, deliveries and receivers of webhooks."


def delay(share):
    return f"histogram_quantile({share}, sum by (le) (rate(budget_webhook_delay_seconds_bucket{{$own}}[$__rate_interval])))"


def a_second(metric):
    return f"sum(rate({metric}{{$own}}[$__rate_interval]))"


def newly(metric):
    return f"sum(increase({metric}{{$own}}[$__rate_interval]))"


ROWS = [
    (
        "Events",
        [
            (
                "Events",
                "Events a second by type, those of subscriptions and all others.",
                "ops",
                [("sum by (type) (rate(budget_events_total{$own}[$__rate_interval])) > 0", "{{type}}")],
            ),
            (
                "Queued",
                "Deliveries queued a second, those of replays apart.",
                "ops",
                [
                    (a_second("budget_webhook_deliveries_queued_total"), "events"),
                    (a_second("budget_webhook_replayed_deliveries_total"), "replays"),
                ],
            ),
            (
                "Lag",
                "Age of the oldest event that is not yet queued for webhooks.",
                "s",
                [("max by (instance) (budget_webhook_lag_seconds{$own})", "{{instance}}")],
            ),
        ],
    ),
    (
        "Deliveries",
        [
            (
                "Attempts",
                "Attempts a second by outcome.",
                "ops",
                [("sum by (outcome) (rate(budget_webhook_attempts_total{$own}[$__rate_interval]))", "{{outcome}}")],
            ),
            (
                "Failures",
                "Attempts a second that did not succeed, by reason.",
                "ops",
                [
                    (
                        'sum by (reason) (rate(budget_webhook_attempts_total{$own,outcome!="success"}[$__rate_interval]))',
                        "{{reason}}",
                    )
                ],
            ),
            (
                "Delay",
                "Time from an event to the first attempt to deliver it.",
                "s",
                [(delay("0.5"), "median"), (delay("0.99"), "99th percentile")],
            ),
            (
                "In flight",
                "Deliveries in flight, by dispatcher.",
                "short",
                [("sum by (instance) (budget_webhook_in_flight{$own})", "{{instance}}")],
            ),
            ("Open", "Deliveries that have not ended.", "short", [("sum(budget_webhook_deliveries_open{$own})", "open")]),
            ("Behind", "Subscriptions that are behind.", "short", [("sum(budget_webhooks_behind{$own})", "behind")]),
        ],
    ),
    (
        "Trouble",
        [
            (
                "Not delivered",
                "Events that were behind for 24 hours, and events that are damaged or gone.",
                "short",
                [
                    (newly("budget_webhook_events_expired_total"), "expired"),
                    (newly("budget_webhook_events_skipped_total"), "skipped"),
                ],
            ),
            (
                "Disabled",
                "Subscriptions that failed too often.",
                "short",
                [(newly("budget_webhooks_disabled_total"), "disabled")],
            ),
            (
                "Damage",
                "Times that a record or a lane could not be read.",
                "short",
                [
                    (newly("budget_webhook_unreadable_records_total"), "records"),
                    (newly("budget_webhook_damaged_lanes_total"), "lanes"),
                ],
            ),
        ],
    ),
]
