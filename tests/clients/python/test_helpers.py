"""The client's high-level helpers: the decorator, streams, the heartbeat, and recovery of what came too late."""

import asyncio
import time
import unittest
from pathlib import Path

from runcycles import (
    BudgetExceededError,
    CyclesMetrics,
    CyclesProtocolError,
    Decision,
    ReleaseRequest,
    Unit,
    cycles,
    get_cycles_context,
)
from service import ACTION, Tenant, fresh, tokens

# With these bounds the heartbeat first extends a lease of 19 seconds after two.
EAGER = {"connect_timeout": 1.0, "read_timeout": 2.0}
LEASE_MS = 19_000


def eventually(condition, seconds=20):
    """Waits until it holds: the client settles in the background."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


class Decorated(unittest.TestCase):
    def setUp(self):
        self.tenant = Tenant()
        self.client = self.tenant.client()
        self.addCleanup(self.client.close)

    def guarded(self, function, estimate=100, **more):
        more = {"client": self.client, "unit": Unit.TOKENS, "action_kind": "llm", "action_name": "m", **more}
        return cycles(estimate, **more)(function)

    def test_what_a_call_used_is_committed(self):
        def call(prompt):
            context = get_cycles_context()
            self.assertEqual((context.decision, context.scope_path), (Decision.ALLOW, self.tenant.scope))
            self.assertEqual(self.tenant.figures(), (9_900, 100, 0, 0))
            context.metrics = CyclesMetrics(tokens_input=len(prompt))
            context.commit_metadata = {"model": "m"}
            return "x" * 40

        self.assertEqual(self.guarded(call, actual=len)("hello"), "x" * 40)
        self.assertEqual(self.tenant.figures(), (9_960, 0, 40, 0))

    def test_a_call_that_fails_gives_its_hold_back(self):
        def call():
            raise KeyError("broken")

        with self.assertRaises(KeyError):
            self.guarded(call)()
        self.assertEqual(self.tenant.figures(), (10_000, 0, 0, 0))

    def test_a_call_without_budget_is_never_made(self):
        made = []
        with self.assertRaises(BudgetExceededError) as refused:
            self.guarded(lambda: made.append(1), estimate=10_001)()
        self.assertEqual((made, refused.exception.status), ([], 409))

    def test_a_dry_run_tells_and_does_not_call(self):
        made = []
        result = self.guarded(lambda: made.append(1), dry_run=True)()
        self.assertTrue(result.is_allowed())
        with self.assertRaises(CyclesProtocolError) as refused:
            self.guarded(lambda: made.append(1), estimate=10_001, dry_run=True)()
        self.assertEqual((made, refused.exception.reason_code), ([], "BUDGET_EXCEEDED"))

    def test_caps_reach_the_call(self):
        self.tenant.policy(caps={"max_tokens": 64})
        seen = self.guarded(lambda: get_cycles_context().caps)()
        self.assertEqual(seen.max_tokens, 64)

    def test_the_subject_may_depend_on_the_call(self):
        self.tenant.budget(f"{self.tenant.scope}/agent:bot", 50)
        call = self.guarded(lambda agent: agent, estimate=lambda agent: 50, agent=lambda agent: agent)
        self.assertEqual(call("bot"), "bot")
        with self.assertRaises(BudgetExceededError):
            call("bot")

    def test_a_commit_that_comes_too_late_is_charged_by_an_event(self):
        """Nothing may be extended here, so the hold is gone when the work is done; the spend must not be."""
        self.tenant = Tenant(settings={"max_reservation_extensions": 0})
        with self.tenant.client() as self.client:
            call = self.guarded(lambda: time.sleep(1.3), actual=lambda _: 70, ttl_ms=1_000, grace_period_ms=0)
            call()
            eventually(lambda: self.tenant.figures()[2] == 70)
        # The hold returns with the next sweep: nobody has swept here yet.
        self.assertEqual(self.tenant.figures(), (9_830, 100, 70, 0))

    def test_the_heartbeat_extends_a_long_call(self):
        with self.tenant.client(**EAGER) as self.client:

            def call():
                context = get_cycles_context()
                first = context.expires_at_ms
                eventually(lambda: context.expires_at_ms > first)
                stored = self.client.get_reservation(context.reservation_id).body["expires_at_ms"]
                return stored - first

            self.assertEqual(self.guarded(call, ttl_ms=LEASE_MS)(), LEASE_MS)
        self.assertEqual(self.tenant.figures(), (9_900, 0, 100, 0))


class Streamed(unittest.TestCase):
    def setUp(self):
        self.tenant = Tenant()
        self.client = self.tenant.client()
        self.addCleanup(self.client.close)

    def stream(self, **more):
        cost = lambda usage: usage.tokens_input + 2 * usage.tokens_output
        return self.client.stream_reservation(action=ACTION, estimate=tokens(100), cost_fn=cost, **more)

    def test_what_a_stream_used_is_committed(self):
        with self.stream() as reservation:
            for _ in range(3):
                reservation.usage.add_input_tokens(5)
                reservation.usage.add_output_tokens(10)
        self.assertIsNone(reservation.settlement_error)
        self.assertEqual(self.tenant.figures(), (9_925, 0, 75, 0))

    def test_a_stream_that_fails_gives_its_hold_back(self):
        with self.assertRaises(ConnectionError), self.stream():
            raise ConnectionError("the model is gone")
        self.assertEqual(self.tenant.figures(), (10_000, 0, 0, 0))

    def test_a_stream_without_budget_never_begins(self):
        self.tenant.set_budget("freeze")
        with self.assertRaises(CyclesProtocolError) as refused, self.stream():
            self.fail("it began")
        self.assertEqual((refused.exception.status, refused.exception.error_code), (409, "BUDGET_FROZEN"))

    def test_a_settlement_that_comes_after_a_release_is_given_up(self):
        with self.stream() as reservation:
            body = ReleaseRequest(idempotency_key=fresh())
            self.assertEqual(self.client.release_reservation(reservation.reservation_id, body).status, 200)
            reservation.usage.set_actual_cost(30)
        eventually(lambda: not list(Path(self.tenant.journal()).rglob("*.json")))
        self.assertEqual(self.tenant.figures(), (10_000, 0, 0, 0))


class Asynchronous(unittest.IsolatedAsyncioTestCase):
    async def test_the_decorator_and_the_stream_do_the_same(self):
        tenant = Tenant()
        async with tenant.async_client(**EAGER) as client:

            @cycles(100, client=client, unit=Unit.TOKENS, actual=len, ttl_ms=LEASE_MS)
            async def call():
                context = get_cycles_context()
                first = context.expires_at_ms
                for _ in range(400):
                    if context.expires_at_ms > first:
                        return "x" * 10
                    await asyncio.sleep(0.05)
                self.fail("never extended")

            self.assertEqual(await call(), "x" * 10)
            async with client.stream_reservation(action=ACTION, estimate=tokens(50)) as reservation:
                reservation.usage.set_actual_cost(20)
        self.assertEqual(tenant.figures(), (9_970, 0, 30, 0))
