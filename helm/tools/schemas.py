"""Writes strict schemas for kubeconform into a folder: those of Kubernetes from the wheel of kubernetes-validate, for the oldest and the
newest version that the chart supports, and those of the operators' objects from the Go modules whose download JSON is on standard input.
"""

import json
import re
import sys
from pathlib import Path
from zipfile import ZipFile

WHEELS = Path(sys.argv[1])
# Python imports from a wheel as it is; what is compiled in it is only faster.
sys.path.insert(0, str(next(WHEELS.glob("[Pp]y[Yy][Aa][Mm][Ll]-*.whl"))))
import yaml  # noqa: E402

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
    target = Path(sys.argv[2])
    package = ZipFile(next(WHEELS.glob("kubernetes_validate-*.whl")))
    for version in VERSIONS:
        source = f"kubernetes_validate/kubernetes-json-schema/v{version}-local-strict/"
        folder = target / f"v{version}"
        folder.mkdir(parents=True)
        for name in package.namelist():
            if name.startswith(source) and name.endswith(".json"):
                text = package.read(name).decode().replace('"/api/_definitions.json', '"_definitions.json')
                text = re.sub(r'^\s*"\$schema": "[^"]*",\n', "", text, count=1, flags=re.M)
                (folder / name.removeprefix(source)).write_text(text)
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
