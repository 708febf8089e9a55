"""What is refused, as the client sees it: status, code and exception.

Each error of the service names its trace, as the protocol has it. This version of the library knows no such member, so its own
ErrorResponse does not read the body, and its exceptions have the code and the message, but neither request id nor details.
"""

import time
import unittest

from runcycles import (
    BudgetExceededError,
    CommitRequest,
    CyclesProtocolError,
    DebtOutstandingError,
    DecisionRequest,
    ErrorCode,
    EventCreateRequest,
    OverdraftLimitExceededError,
    ReleaseRequest,
    ReservationCreateRequest,
    ReservationExpiredError,
    ReservationExtendRequest,
    ReservationFinalizedError,
    TenantClosedError,
    Unit,
)
from runcycles.lifecycle import _build_protocol_exception
from service import ACTION, Tenant, admin, fresh, tokens
from test_operations import create


def commit(amount, key=None):
    return CommitRequest(idempotency_key=key or fresh(), actual=tokens(amount))


class Refusals(unittest.TestCase):
    def setUp(self):
        self.tenant = Tenant()
        self.client = self.tenant.client()
        self.addCleanup(self.client.close)

    def refused(self, response, status, code, exception=CyclesProtocolError):
        """Checks a refusal and answers the exception that the client makes of it."""
        self.assertEqual((response.status, response.get_body_attribute("error")), (status, code), response)
        self.assertIn(code, ErrorCode.__members__, "the client knows it")
        self.assertTrue(response.is_client_error)
        self.assertEqual(response.body["request_id"], response.request_id)
        self.assertEqual(response.error_message, response.body["message"])
        made = _build_protocol_exception("refused", response)
        self.assertEqual((type(made), made.status, made.error_code), (exception, status, code))
        self.assertEqual(made.is_retryable(), code == "LIMIT_EXCEEDED")
        return made

    def reserve(self, amount, client=None, **more):
        return (client or self.client).create_reservation(create(self.tenant, amount, **more))

    def held(self, amount, **more):
        response = self.reserve(amount, **more)
        self.assertEqual(response.status, 200, response)
        return response.body["reservation_id"]

    def test_too_little_remains(self):
        error = self.refused(self.reserve(10_001), 409, "BUDGET_EXCEEDED", BudgetExceededError)
        self.assertTrue(error.is_budget_exceeded())
        held = self.held(10)
        self.tenant.set_budget("freeze")
        self.refused(self.reserve(1), 409, "BUDGET_FROZEN")
        self.assertEqual(self.client.commit_reservation(held, commit(10)).status, 200)
        self.tenant.set_budget("unfreeze")
        self.assertEqual(self.reserve(1).status, 200)

    def test_an_overage_that_the_policy_rejects(self):
        held = self.held(10, overage_policy="REJECT")
        answer = self.client.commit_reservation(held, commit(11))
        self.refused(answer, 409, "BUDGET_EXCEEDED", BudgetExceededError)

    def test_debt_stands_against_more(self):
        tenant = Tenant(allocated=100, overdraft_limit={"unit": "TOKENS", "amount": 50})
        with tenant.client() as client:
            held = client.create_reservation(create(tenant, 100, overage_policy="ALLOW_WITH_OVERDRAFT"))
            held = held.body["reservation_id"]
            too_much = client.commit_reservation(held, commit(151))
            error = self.refused(too_much, 409, "OVERDRAFT_LIMIT_EXCEEDED", OverdraftLimitExceededError)
            self.assertTrue(error.is_overdraft_limit_exceeded())
            self.assertEqual(client.commit_reservation(held, commit(150)).status, 200)
            error = self.refused(client.create_reservation(create(tenant, 1)), 409, "DEBT_OUTSTANDING", DebtOutstandingError)
            self.assertTrue(error.is_debt_outstanding())
            tenant.fund("REPAY_DEBT", 60)
            self.assertEqual(client.create_reservation(create(tenant, 1)).status, 200)

    def test_a_key_that_was_used_with_another_request(self):
        self.held(10, key="first")
        error = self.refused(self.reserve(11, key="first"), 409, "IDEMPOTENCY_MISMATCH")
        self.assertTrue(error.is_idempotency_mismatch())
        held = self.held(10)
        self.assertEqual(self.client.commit_reservation(held, commit(5, "c")).status, 200)
        self.refused(self.client.commit_reservation(held, commit(6, "c")), 409, "IDEMPOTENCY_MISMATCH")

    def test_a_reservation_that_has_ended(self):
        held = self.held(10)
        self.assertEqual(self.client.commit_reservation(held, commit(10)).status, 200)
        extend = ReservationExtendRequest(idempotency_key=fresh(), extend_by_ms=1_000)
        release = ReleaseRequest(idempotency_key=fresh())
        for answer in (
            self.client.commit_reservation(held, commit(10)),
            self.client.release_reservation(held, release),
            self.client.extend_reservation(held, extend),
        ):
            error = self.refused(answer, 409, "RESERVATION_FINALIZED", ReservationFinalizedError)
            self.assertTrue(error.is_reservation_finalized())

    def test_a_reservation_that_has_expired(self):
        held = self.held(10, ttl_ms=1_000, grace_period_ms=0)
        time.sleep(1.2)
        extend = ReservationExtendRequest(idempotency_key=fresh(), extend_by_ms=1_000)
        release = ReleaseRequest(idempotency_key=fresh())
        for answer in (
            self.client.commit_reservation(held, commit(10)),
            self.client.release_reservation(held, release),
            self.client.extend_reservation(held, extend),
        ):
            error = self.refused(answer, 410, "RESERVATION_EXPIRED", ReservationExpiredError)
            self.assertTrue(error.is_reservation_expired())

    def test_more_extensions_than_allowed(self):
        tenant = Tenant(settings={"max_reservation_extensions": 1})
        with tenant.client() as client:
            held = client.create_reservation(create(tenant, 1)).body["reservation_id"]
            extend = lambda: ReservationExtendRequest(idempotency_key=fresh(), extend_by_ms=1_000)
            self.assertEqual(client.extend_reservation(held, extend()).status, 200)
            self.refused(client.extend_reservation(held, extend()), 409, "MAX_EXTENSIONS_EXCEEDED")

    def test_no_good_key(self):
        record = self.tenant.new_key_record()
        admin("DELETE", f"/v1/admin/api-keys/{record['key_id']}")
        for key in ("nonsense", self.tenant.key[:-4] + "AAAA", record["key_secret"]):
            with self.tenant.client(key) as client:
                error = self.refused(self.reserve(1, client), 401, "UNAUTHORIZED")
                self.assertNotIn(key, str(error))
                self.refused(client.get_balances(tenant=self.tenant.name), 401, "UNAUTHORIZED")

    def test_a_good_key_that_may_not(self):
        poor = self.tenant.new_key(permissions=["balances:read"])
        with self.tenant.client(poor) as client:
            self.refused(self.reserve(1, client), 403, "FORBIDDEN")
            self.assertEqual(client.get_balances(tenant=self.tenant.name).status, 200)
        narrow = self.tenant.new_key(scope_filter=["agent:bot"])
        with self.tenant.client(narrow) as client:
            self.refused(self.reserve(1, client), 403, "FORBIDDEN")
            request = create(self.tenant, 1)
            request.subject = self.tenant.subject(agent="bot")
            self.assertEqual(client.create_reservation(request).status, 200)

    def test_what_belongs_to_another_tenant(self):
        held, other = self.held(10), Tenant()
        with other.client() as client:
            self.refused(self.reserve(1, client), 403, "FORBIDDEN")
            self.refused(client.get_reservation(held), 403, "FORBIDDEN")
            self.refused(client.commit_reservation(held, commit(1)), 403, "FORBIDDEN")
            self.refused(client.get_balances(tenant=self.tenant.name), 403, "FORBIDDEN")
        self.assertEqual(self.tenant.figures(), (9_990, 10, 0, 0))

    def test_what_does_not_exist(self):
        self.refused(self.client.get_reservation("r000_AAAAAAAAAAAAAAAAAAAAAAAA"), 404, "NOT_FOUND")
        request = create(self.tenant, 1)
        request.estimate.unit = Unit.CREDITS
        error = self.refused(self.client.create_reservation(request), 400, "UNIT_MISMATCH")
        self.assertTrue(error.is_unit_mismatch())
        bare = Tenant.bare()
        with bare.client() as client:
            self.refused(client.create_reservation(create(bare, 1)), 404, "NOT_FOUND")

    def test_a_request_that_is_wrong(self):
        for body in (
            {},
            {**create(self.tenant, 1).model_dump(exclude_none=True, mode="json"), "surprise": 1},
            {**create(self.tenant, 1).model_dump(exclude_none=True, mode="json"), "ttl_ms": 999},
        ):
            self.refused(self.client.create_reservation(body), 400, "INVALID_REQUEST")
        self.refused(self.client.list_reservations(limit="nonsense"), 400, "INVALID_REQUEST")

    def test_a_rate_limit_says_when_to_come_again(self):
        self.tenant.policy(rate_limits={"max_reservations_per_minute": 1})
        answers = [self.reserve(1) for _ in range(3)]  # A minute may end between two of them, not twice.
        limited = next(answer for answer in answers if answer.status != 200)
        error = self.refused(limited, 429, "LIMIT_EXCEEDED")
        self.assertTrue(0 <= error.retry_after_ms <= 60_000)
        self.assertTrue(abs(limited.rate_limit_reset - time.time()) <= 61)

    def test_a_suspended_tenant_spends_no_more(self):
        held = self.held(10)
        self.tenant.set_status("SUSPENDED")
        self.refused(self.reserve(1), 403, "FORBIDDEN")
        self.assertEqual(self.client.commit_reservation(held, commit(10)).status, 200)

    def test_a_closed_tenant_is_read_only(self):
        held = self.held(10)
        self.tenant.set_status("CLOSED")
        # The close has revoked its keys.
        self.refused(self.client.commit_reservation(held, commit(10)), 401, "UNAUTHORIZED")

    def test_a_tenant_is_closed_while_its_key_still_stands(self):
        """Between the flip and the end of a close."""
        self.tenant = Tenant.closed()
        with self.tenant.client() as client:
            error = self.refused(self.reserve(1, client), 409, "TENANT_CLOSED", TenantClosedError)
            self.assertTrue(error.is_tenant_closed())
            event = EventCreateRequest(
                idempotency_key=fresh(), subject=self.tenant.subject(), action=ACTION, actual=tokens(1)
            )
            self.refused(client.create_event(event), 409, "TENANT_CLOSED", TenantClosedError)
            dry = self.reserve(1, client, dry_run=True)
            self.assertEqual((dry.status, dry.body["reason_code"]), (200, "TENANT_CLOSED"))
            self.assertEqual(client.list_reservations().status, 200)

    def test_a_denied_decision_is_an_answer(self):
        self.tenant.set_budget("freeze")
        request = DecisionRequest(
            idempotency_key=fresh(), subject=self.tenant.subject(), action=ACTION, estimate=tokens(1)
        )
        answer = self.client.decide(request)
        self.assertEqual((answer.status, answer.body["reason_code"]), (200, "BUDGET_FROZEN"))
        event = EventCreateRequest(
            idempotency_key=fresh(), subject=self.tenant.subject(), action=ACTION, actual=tokens(1)
        )
        self.refused(self.client.create_event(event), 409, "BUDGET_FROZEN")
