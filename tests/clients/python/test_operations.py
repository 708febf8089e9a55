"""Each operation of the client, read back by the client's own strict models."""

import unittest

from runcycles import (
    BalanceResponse,
    CommitRequest,
    CommitResponse,
    CyclesMetrics,
    Decision,
    DecisionRequest,
    DecisionResponse,
    EventCreateRequest,
    EventCreateResponse,
    ReleaseRequest,
    ReleaseResponse,
    ReservationCreateRequest,
    ReservationCreateResponse,
    ReservationDetail,
    ReservationExtendRequest,
    ReservationExtendResponse,
    ReservationListResponse,
    ReservationStatus,
)
from service import ACTION, Tenant, admin, fresh, tokens


def create(tenant, amount, key=None, **more):
    return ReservationCreateRequest(
        idempotency_key=key or fresh(),
        subject=tenant.subject(),
        action=ACTION,
        estimate=tokens(amount),
        **more,
    )


class Operations(unittest.TestCase):
    def setUp(self):
        self.tenant = Tenant()
        self.client = self.tenant.client()
        self.addCleanup(self.client.close)

    def read(self, response, model, status=200):
        """The body as the client's model reads it, which knows every member and forbids others."""
        self.assertEqual(response.status, status, response)
        self.assertTrue(response.is_success)
        self.assertEqual(response.cycles_tenant, self.tenant.name)
        self.assertRegex(response.request_id, "^req_[0-9a-f]{32}$")
        return model.model_validate_json(model.model_validate(response.body).model_dump_json())

    def reserve(self, amount, **more):
        response = self.client.create_reservation(create(self.tenant, amount, **more))
        return self.read(response, ReservationCreateResponse)

    def test_a_reservation_is_committed_and_its_rest_returns(self):
        made = self.reserve(100, ttl_ms=60_000, metadata={"run": "7"})
        self.assertEqual(made.decision, Decision.ALLOW)
        self.assertEqual((made.reserved, made.scope_path), (tokens(100), self.tenant.scope))
        self.assertTrue(0 < made.remaining_ttl_ms <= 60_000)
        self.assertEqual(made.balances[0].remaining.amount, 9_900)
        metrics = CyclesMetrics(tokens_input=30, tokens_output=12, model_version="m", custom={"k": [1]})
        body = CommitRequest(idempotency_key=fresh(), actual=tokens(42), metrics=metrics, metadata={"a": 1})
        first = self.client.commit_reservation(made.reservation_id, body)
        done = self.read(first, CommitResponse)
        self.assertEqual((done.charged, done.released), (tokens(42), tokens(58)))
        again = self.client.commit_reservation(made.reservation_id, body)
        self.assertEqual((again.status, again.body), (200, first.body))
        self.assertEqual(self.tenant.figures(), (9_958, 0, 42, 0))

    def test_a_create_that_is_repeated_holds_once(self):
        request = create(self.tenant, 100)
        first, again = (self.client.create_reservation(request) for _ in range(2))
        self.assertEqual(first.body["reservation_id"], again.body["reservation_id"])
        self.assertEqual(self.tenant.figures(), (9_900, 100, 0, 0))

    def test_a_reservation_is_released(self):
        made = self.reserve(100)
        body = ReleaseRequest(idempotency_key=fresh(), reason="not needed")
        done = self.read(self.client.release_reservation(made.reservation_id, body), ReleaseResponse)
        self.assertEqual(done.released, tokens(100))
        found = self.read(self.client.get_reservation(made.reservation_id), ReservationDetail)
        self.assertTrue(found.is_released())

    def test_a_reservation_is_extended(self):
        made = self.reserve(100, ttl_ms=5_000)
        body = ReservationExtendRequest(idempotency_key=fresh(), extend_by_ms=30_000)
        done = self.read(self.client.extend_reservation(made.reservation_id, body), ReservationExtendResponse)
        self.assertEqual(done.expires_at_ms, made.expires_at_ms + 30_000)
        self.assertTrue(30_000 <= done.remaining_ttl_ms <= 35_000)

    def test_reservations_are_read_and_listed_page_by_page(self):
        ids = [self.reserve(1, key=f"k{n}").reservation_id for n in range(3)]
        found = self.read(self.client.get_reservation(ids[0]), ReservationDetail)
        self.assertEqual((found.status, found.idempotency_key), (ReservationStatus.ACTIVE, "k0"))
        self.assertEqual((found.subject, found.action), (self.tenant.subject(), ACTION))
        seen, cursor = [], {}
        while True:
            page = self.client.list_reservations(status="ACTIVE", limit="2", **cursor)
            page = self.read(page, ReservationListResponse)
            seen += [row.reservation_id for row in page.reservations]
            if not page.has_more:
                break
            cursor = {"cursor": page.next_cursor}
        self.assertEqual(sorted(seen), sorted(ids))
        self.assertEqual(len(self.client.list_reservations(idempotency_key="k1").body["reservations"]), 1)
        self.assertEqual(self.client.list_reservations().status, 200)

    def test_a_decision_holds_nothing(self):
        def decide(amount):
            request = DecisionRequest(
                idempotency_key=fresh(), subject=self.tenant.subject(), action=ACTION, estimate=tokens(amount)
            )
            return self.read(self.client.decide(request), DecisionResponse)

        self.assertTrue(decide(10_000).is_allowed())
        denied = decide(10_001)
        self.assertEqual((denied.is_denied(), denied.reason_code), (True, "BUDGET_EXCEEDED"))
        self.assertEqual(self.tenant.figures(), (10_000, 0, 0, 0))

    def test_an_event_charges_at_once(self):
        def event(amount):
            return EventCreateRequest(
                idempotency_key=fresh(), subject=self.tenant.subject(), action=ACTION, actual=tokens(amount), client_time_ms=1
            )

        request = event(25)
        done = self.read(self.client.create_event(request), EventCreateResponse, status=201)
        self.assertIsNone(done.charged, "all of it")
        self.assertEqual(self.client.create_event(request).body["event_id"], done.event_id)
        self.assertEqual(self.tenant.figures(), (9_975, 0, 25, 0))
        capped = self.read(self.client.create_event(event(20_000)), EventCreateResponse, status=201)
        self.assertEqual(capped.charged, tokens(9_975))

    def test_balances_show_every_figure_of_every_budget_below(self):
        self.tenant.budget(f"{self.tenant.scope}/agent:bot", 500, overdraft_limit={"unit": "TOKENS", "amount": 50})
        page = self.client.get_balances(tenant=self.tenant.name, include_children="true")
        rows = {row.scope_path: row for row in self.read(page, BalanceResponse).balances}
        self.assertEqual(set(rows), {self.tenant.scope, f"{self.tenant.scope}/agent:bot"})
        bot = rows[f"{self.tenant.scope}/agent:bot"]
        self.assertEqual((bot.scope, bot.allocated, bot.overdraft_limit), ("agent:bot", tokens(500), tokens(50)))

    def test_a_dry_run_holds_nothing_and_has_no_reservation(self):
        made = self.reserve(100, dry_run=True)
        self.assertTrue(made.is_allowed())
        self.assertIsNone(made.reservation_id)
        self.assertEqual(self.tenant.figures(), (10_000, 0, 0, 0))

    def test_caps_of_a_policy_come_with_the_decision(self):
        self.tenant.policy(caps={"max_tokens": 128, "tool_denylist": ["web.search"]})
        made = self.reserve(100)
        self.assertEqual((made.decision, made.caps.max_tokens), (Decision.ALLOW_WITH_CAPS, 128))
        self.assertFalse(made.caps.is_tool_allowed("web.search"))

    def test_a_reservation_below_several_budgets_is_seen_by_all(self):
        self.tenant.budget(f"{self.tenant.scope}/workspace:prod", 1_000)
        request = create(self.tenant, 100)
        request.subject = self.tenant.subject(workspace="prod", dimensions={"cost_center": "eng"})
        made = self.read(self.client.create_reservation(request), ReservationCreateResponse)
        self.assertEqual(made.affected_scopes, [self.tenant.scope, f"{self.tenant.scope}/workspace:prod"])
        self.assertEqual([row.remaining.amount for row in made.balances], [9_900, 900])

    def test_the_greatest_amount_is_exact(self):
        greatest = 2**63 - 1
        tenant = Tenant(allocated=greatest)
        with tenant.client() as client:
            made = client.create_reservation(create(tenant, greatest))
            self.assertEqual(made.body["balances"][0]["reserved"]["amount"], greatest)
            body = CommitRequest(idempotency_key=fresh(), actual=tokens(greatest - 1))
            done = CommitResponse.model_validate(client.commit_reservation(made.body["reservation_id"], body).body)
        self.assertEqual((done.charged.amount, done.released.amount), (greatest - 1, 1))

    def test_health_needs_no_key(self):
        self.assertEqual(admin("GET", "/actuator/health"), {"status": "UP"})


class AsyncOperations(unittest.IsolatedAsyncioTestCase):
    async def test_the_asynchronous_client_does_the_same(self):
        tenant = Tenant()
        async with tenant.async_client() as client:
            made = await client.create_reservation(create(tenant, 100))
            reservation = ReservationCreateResponse.model_validate(made.body).reservation_id
            extend = ReservationExtendRequest(idempotency_key=fresh(), extend_by_ms=1_000)
            self.assertEqual((await client.extend_reservation(reservation, extend)).status, 200)
            commit = CommitRequest(idempotency_key=fresh(), actual=tokens(60))
            self.assertEqual((await client.commit_reservation(reservation, commit)).status, 200)
            self.assertEqual((await client.get_reservation(reservation)).body["status"], "COMMITTED")
            other = await client.create_reservation(create(tenant, 5))
            release = ReleaseRequest(idempotency_key=fresh())
            released = await client.release_reservation(other.body["reservation_id"], release)
            self.assertEqual(released.status, 200)
            listed = await client.list_reservations(status="RELEASED")
            self.assertEqual(len(listed.body["reservations"]), 1)
            balances = BalanceResponse.model_validate((await client.get_balances(tenant=tenant.name)).body)
            self.assertEqual(balances.balances[0].spent, tokens(60))
