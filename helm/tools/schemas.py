"""Writes strict schemas for kubeconform into a folder: those of Kubernetes from the package kubernetes-validate, for the oldest and the
newest version that the chart supports, and those of the operators' objects from the Go modules whose download JSON is on standard input.
"""

import importlib.util
import json
import re
import shutil
import sys
from pathlib import Path

import yaml

VERSIONS = ["1.25.0", "1.37.0"]
KINDS = ["ServiceMonitor", "PodMonitor", "PrometheusRule", "HTTPRoute"]


def modules(text):
    """The folders of downloaded Go modules."""
    decoder = json.JSONDecoder()
    while text.strip():
        module, end = decoder.raw_decode(text.strip())
        text = text.strip()[end:]
        yield Path(module["Dir"])


def strict(schema):
    """The same, refusing unknown fields where Kubernetes would drop them."""
    if isinstance(schema, list):
        return [strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: strict(one) for name, one in schema.items()}
    if isinstance(made.get("properties"), dict) and not made.get("x-kubernetes-preserve-unknown-fields"):
        made.setdefault("additionalProperties", False)
    return made


def definitions(folders):
    """The definitions of the wanted kinds."""
    for folder in folders:
        for pattern in ("jsonnet/prometheus-operator/*-crd.json", "config/crd/standard/*.yaml"):
            for path in sorted(folder.glob(pattern)):
                # JSON is YAML too.
                text = path.read_text()
                definition = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
                if definition["spec"]["names"]["kind"] in KINDS:
                    yield definition["spec"]


def main():
    target = Path(sys.argv[1])
    # Found, not imported: its own dependencies are not installed.
    source = Path(importlib.util.find_spec("kubernetes_validate").origin).parent / "kubernetes-json-schema"
    for version in VERSIONS:
        folder = target / f"v{version}"
        shutil.copytree(source / f"v{version}-local-strict", folder)
        for path in folder.glob("*.json"):
            text = path.read_text().replace('"/api/_definitions.json', '"_definitions.json')
            path.write_text(re.sub(r'^\s*"\$schema": "[^"]*",\n', "", text, count=1, flags=re.M))
    written = set()
    for spec in definitions(modules(sys.stdin.read())):
        for version in spec["versions"]:
            schema = strict(version["schema"]["openAPIV3Schema"])
            # What every object has, and no definition repeats.
            schema["properties"] |= {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"}}
            kind, group = spec["names"]["kind"], spec["group"].split(".")[0]
            for kubernetes in VERSIONS:
                (target / f"v{kubernetes}" / f"{kind}-{group}-{version['name']}.json".lower()).write_text(json.dumps(schema))
            written.add(kind)
    if missing := set(KINDS) - written:
        raise SystemExit(f"no schema of {', '.join(sorted(missing))}")


main()
