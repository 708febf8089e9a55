"""Prints the queries of a Grafana dashboard as a rule file, so that promtool reads them."""

import json
import sys

panels = json.load(open(sys.argv[1]))["panels"]
queries = [target["expr"] for panel in panels for target in panel.get("targets", [])]
rules = [{"record": f"query_{at}", "expr": query.replace("$__rate_interval", "5m")} for at, query in enumerate(queries)]
# JSON is YAML too.
print(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
