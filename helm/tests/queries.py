"""Prints the queries of Grafana dashboards as a rule file, so that promtool reads them."""

import json
import sys

groups = []
for number, path in enumerate(sys.argv[1:]):
    panels = json.load(open(path))["panels"]
    queries = [target["expr"].replace("$__rate_interval", "5m") for panel in panels for target in panel.get("targets", [])]
    rules = [{"record": f"query_{number}_{at}", "expr": query} for at, query in enumerate(queries)]
    groups.append({"name": path, "rules": rules})
# JSON is YAML too.
print(json.dumps({"groups": groups}))
