"""The service as its operator sees it: tenants, budgets, keys and policies by plain HTTP, without any client library."""

import atexit
import json
import os
import shutil
import tempfile
import urllib.error
import urllib.request
import uuid

from runcycles import Action, Amount, AsyncCyclesClient, CyclesClient, CyclesConfig, Subject, Unit

URL = os.environ["BUDGET_URL"]
ADMIN_KEY = os.environ["BUDGET_ADMIN_KEY"]
JOURNAL = tempfile.mkdtemp(prefix="budget-clients-")
atexit.register(shutil.rmtree, JOURNAL, ignore_errors=True)

ACTION = Action(kind="llm.completion", name="openai:gpt-4o-mini")


def tokens(amount):
    return Amount(unit=Unit.TOKENS, amount=amount)


def fresh():
    """A text that nothing else uses."""
    return uuid.uuid4().hex[:20]


def admin(method, path, body=None):
    """An operation of the operator's, which must succeed; its answer."""
    request = urllib.request.Request(
        URL + path,
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"X-Admin-API-Key": ADMIN_KEY, "Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=20) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        raise AssertionError(f"{method} {path} {body}: {error.code} {error.read()!r}") from error


class Tenant:
    """A tenant of its own for a test, with a root budget in TOKENS and a key."""

    def __init__(self, allocated=10_000, settings=None, **budget):
        self.name = f"py-{fresh()}"
        admin("POST", "/v1/admin/tenants", {"tenant_id": self.name, "name": self.name, **(settings or {})})
        self.scope = f"tenant:{self.name}"
        self.budget(self.scope, allocated, **budget)
        self.key = self.new_key()

    @classmethod
    def closed(cls):
        """One that is closed while its key still stands; the test suite keeps it."""
        tenant = cls.__new__(cls)
        tenant.name, tenant.key = os.environ["BUDGET_CLOSED_TENANT"], os.environ["BUDGET_CLOSED_KEY"]
        return tenant

    @classmethod
    def bare(cls):
        """One without any budget."""
        tenant = cls.__new__(cls)
        tenant.name = f"py-{fresh()}"
        admin("POST", "/v1/admin/tenants", {"tenant_id": tenant.name, "name": tenant.name})
        tenant.key = tenant.new_key()
        return tenant

    def budget(self, scope, allocated, **budget):
        allocated = {"unit": "TOKENS", "amount": allocated}
        # Members that the protocol does not have: clients must not notice them.
        most = {"unit": "TOKENS", "amount": 2**63 - 1}
        more = {"period": {"every": "P1Y"}, "limits": [{"every": "P1Y", "time_zone": "Europe/Berlin", "amount": most}]}
        body = {"tenant_id": self.name, "scope": scope, "unit": "TOKENS", "allocated": allocated, **more, **budget}
        admin("POST", "/v1/admin/budgets", body)

    def new_key(self, **fields):
        """The text of one more key."""
        return self.new_key_record(**fields)["key_secret"]

    def new_key_record(self, **fields):
        return admin("POST", "/v1/admin/api-keys", {"tenant_id": self.name, "name": "client", **fields})

    def policy(self, **fields):
        body = {"tenant_id": self.name, "name": fresh(), "scope_pattern": self.scope, **fields}
        return admin("POST", "/v1/admin/policies", body)

    def set_status(self, status):
        admin("PATCH", f"/v1/admin/tenants/{self.name}", {"status": status})

    def set_budget(self, verb):
        """Freezes the root budget, or ends that."""
        admin("POST", f"/v1/admin/budgets/{verb}?scope={self.scope}&unit=TOKENS", {"reason": "test"})

    def fund(self, operation, amount, **more):
        body = {"operation": operation, "amount": {"unit": "TOKENS", "amount": amount}, **more}
        admin("POST", f"/v1/admin/budgets/fund?tenant_id={self.name}&scope={self.scope}&unit=TOKENS", body)

    def journal(self):
        """The folder in which the clients of this tenant keep what they could not send."""
        folder = os.path.join(JOURNAL, self.name)
        os.makedirs(folder, exist_ok=True)
        return folder

    def config(self, key=None, **more):
        # The library's own bounds in seconds: with short ones its heartbeat begins early.
        bounds = {"connect_timeout": 2.0, "read_timeout": 10.0, "retry_initial_delay": 0.05, "journal_dir": self.journal()}
        return CyclesConfig(base_url=URL, api_key=key or self.key, tenant=self.name, **{**bounds, **more})

    def client(self, key=None, **more):
        return CyclesClient(self.config(key, **more))

    def async_client(self, **more):
        return AsyncCyclesClient(self.config(**more))

    def subject(self, **levels):
        return Subject(tenant=self.name, **levels)

    def figures(self):
        """`remaining reserved spent debt` of the root budget, as the operator sees it."""
        ledger = admin("GET", f"/v1/admin/budgets/lookup?scope={self.scope}&unit=TOKENS")
        figure = lambda name: ledger.get(name, {"amount": 0})["amount"]
        return tuple(figure(name) for name in ("remaining", "reserved", "spent", "debt"))
