"""One tenant: the gauges of its budgets, which BUDGET_METRICS_TENANTS switches on."""

UID = "budget-authority-tenant"
TITLE = "Budget authority: one tenant"
ABOUT = "The budgets of a tenant that BUDGET_METRICS_TENANTS lists."

VARIABLES = [
    ("tenant", "Tenant", "budget_allocated", "tenant"),
    ("unit", "Unit", "budget_allocated", "unit"),
    ("scope", "Scope", "budget_allocated", "scope"),
]

# By scope and unit, since a budget has gauges in another dispatcher after a lease went over.
BUDGET = '$own,tenant=~"$tenant",unit=~"$unit",scope=~"$scope"'


def of_each(metric):
    return f"max by (scope, unit) ({metric}{{{BUDGET}}})"


LINE = "{{scope}} {{unit}}"

ROWS = [
    (
        "Budgets",
        [
            ("Remaining", "Amount that can still be reserved. Negative in debt.", "short", [(of_each("budget_remaining"), LINE)], "signed"),
            (
                "Used",
                "Share of the allocation that is spent, reserved or in debt. Above 1 in debt.",
                "percentunit",
                [(f"1 - {of_each('budget_remaining')} / {of_each('budget_allocated')}", LINE)],
                "signed",
            ),
            ("Reserved", "Amount held by active reservations.", "short", [(of_each("budget_reserved"), LINE)]),
            ("Debt", "Amount charged beyond the available funds.", "short", [(of_each("budget_debt"), LINE)]),
            ("Allocated", "Allocated amount.", "short", [(of_each("budget_allocated"), LINE)]),
            (
                "Lowest",
                "The ten budgets with the smallest share left.",
                "percentunit",
                [(f"bottomk(10, {of_each('budget_remaining')} / {of_each('budget_allocated')})", LINE)],
                "signed",
            ),
        ],
    ),
    (
        "The gauges themselves",
        [
            (
                "Left out",
                "Budgets of all tenants that were left without gauges, since there would be more than 1,000 series.",
                "short",
                [("sum by (instance) (increase(budget_gauges_left_out_total{$own}[$__rate_interval]))", "{{instance}}")],
            ),
            (
                "Reads",
                "Passes of the worker that reads them, a second.",
                "ops",
                [('sum by (result) (rate(budget_worker_passes_total{$own,worker="budget_gauges"}[$__rate_interval]))', "{{result}}")],
            ),
        ],
    ),
]
