"""Builds the chart's dashboards for Grafana from their descriptions in this folder; helm/generate writes them.

A description has UID, TITLE, ABOUT, ROWS and maybe VARIABLES. A row is a title with panels: title, description, unit, and queries with
what their lines are called. `$own` in a query stands for the labels that select processes.
"""

import json

from . import overview, redis, tenant, webhooks

OWN = 'namespace=~"$namespace",job=~"$job",instance=~"$instance"'
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
WIDTH, HEIGHT, COLUMNS = 8, 8, 3


def variable(name, label, query):
    """A choice among the values of a label."""
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": query, "refId": name},
        "definition": query,
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "allValue": ".*",
        "sort": 1,
        "current": {},
    }


def variables(further):
    source = {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "refresh": 1, "current": {}}
    chosen, made = [], [source]
    own = [(name, name.capitalize(), "budget_build_info", name) for name in ("namespace", "job", "instance")]
    for name, label, metric, of in own + further:
        selector = "{" + ",".join(chosen) + "}" if chosen else ""
        made.append(variable(name, label, f"label_values({metric}{selector}, {of})"))
        chosen.append(f'{of}=~"${name}"')
    return made


def panel(number, at, y, described):
    title, about, unit, queries = described[:4]
    axis = {} if len(described) > 4 else {"min": 0}
    return {
        "id": number,
        "type": "timeseries",
        "title": title,
        "description": about,
        "datasource": SOURCE,
        "fieldConfig": {"defaults": {"unit": unit} | axis | {"custom": {"fillOpacity": 10, "showPoints": "never"}}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi", "sort": "desc"}},
        "targets": [
            {"refId": chr(ord("A") + place), "datasource": SOURCE, "expr": query.replace("$own", OWN), "legendFormat": legend}
            for place, (query, legend) in enumerate(queries)
        ],
        "gridPos": {"h": HEIGHT, "w": WIDTH, "x": at % COLUMNS * WIDTH, "y": y + at // COLUMNS * HEIGHT},
    }


def panels(rows):
    made, y = [], 0
    for title, inside in rows:
        grid = {"h": 1, "w": WIDTH * COLUMNS, "x": 0, "y": y}
        made.append({"id": len(made) + 1, "type": "row", "title": title, "collapsed": False, "panels": [], "gridPos": grid})
        for at, described in enumerate(inside):
            made.append(panel(len(made) + 1, at, y + 1, described))
        y += 1 + -(-len(inside) // COLUMNS) * HEIGHT
    return made


def dashboard(of):
    return {
        "uid": of.UID,
        "title": of.TITLE,
        "description": of.ABOUT,
        "tags": ["budget-authority"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "timezone": "",
        "templating": {"list": variables(getattr(of, "VARIABLES", []))},
        "panels": panels(of.ROWS),
    }


def texts():
    """The files of the chart, by their paths in it."""
    all_of_them = {"overview": overview, "tenant": tenant, "redis": redis, "webhooks": webhooks}
    return {
        f"files/dashboards/{name}.json": json.dumps(dashboard(of), indent=1, ensure_ascii=False) + "\n"
        for name, of in all_of_them.items()
    }
