"""What an envelope may hold: all its objects are closed. docs/evidence-format.md has the same in tables."""

import re

from kinds import INT64, all_of, array, closed, flag, free, integer, labels, text, word

UNIT = word("USD_MICROCENTS TOKENS CREDITS RISK_POINTS")
OVERAGE = word("REJECT ALLOW_IF_AVAILABLE ALLOW_WITH_OVERDRAFT")
AMOUNT, SIGNED = (closed({"unit": UNIT, "amount": integer(least)}) for least in (0, -INT64 - 1))
LEVELS = all_of("tenant workspace app workflow agent toolset", text(0, 128))
SUBJECT = closed({}, {**LEVELS, "dimensions": labels}, lambda subject: subject.keys() & LEVELS.keys())
ACTION = closed({"kind": text(0, 64), "name": text(0, 256)}, {"tags": array(text(0, 64), 10)})
FIGURES = all_of("reserved spent allocated debt overdraft_limit", AMOUNT)
BALANCE = closed({"scope": text(), "scope_path": text(), "remaining": SIGNED}, {**FIGURES, "is_over_limit": flag})
TOOLS = all_of("tool_allowlist tool_denylist", array(text()))
CAPS = closed({}, {**all_of("max_tokens max_steps_remaining cooldown_ms", integer()), **TOOLS})
COUNTS = all_of("tokens_input tokens_output latency_ms", integer())
METRICS = closed({}, {**COUNTS, "model_version": text(0, 128), "custom": free})
CODE = word(
    "INVALID_REQUEST UNAUTHORIZED FORBIDDEN NOT_FOUND BUDGET_EXCEEDED BUDGET_FROZEN BUDGET_CLOSED RESERVATION_EXPIRED "
    "RESERVATION_FINALIZED IDEMPOTENCY_MISMATCH UNIT_MISMATCH OVERDRAFT_LIMIT_EXCEEDED DEBT_OUTSTANDING "
    "MAX_EXTENSIONS_EXCEEDED LIMIT_EXCEEDED TENANT_CLOSED INTERNAL_ERROR"
)

KEY = {"idempotency_key": text(1, 256)}
ESTIMATE = {**KEY, "subject": SUBJECT, "action": ACTION, "estimate": AMOUNT}
TIMES = {"ttl_ms": integer(1_000, 86_400_000), "grace_period_ms": integer(0, 60_000)}
REQUESTS = {
    "decide": closed(ESTIMATE, {"metadata": free}),
    "reserve": closed(ESTIMATE, {**TIMES, "overage_policy": OVERAGE, "dry_run": flag, "metadata": free}),
    "commit": closed({**KEY, "actual": AMOUNT}, {"metrics": METRICS, "metadata": free}),
    "release": closed(KEY, {"reason": text(0, 256)}),
}

DECISION = {"decision": word("ALLOW ALLOW_WITH_CAPS DENY")}
SCOPES, BALANCES = {"affected_scopes": array(text())}, {"balances": array(BALANCE)}
REASONS = {"caps": CAPS, "reason_code": text(0, 128), "retry_after_ms": integer()}
HOLD = {"reservation_id": text(1), "reserved": AMOUNT, "expires_at_ms": integer(), "scope_path": text()}
TRACE = {"trace_id": text(32, 32, "[0-9a-f]*")}


def capped(response):
    return (response["decision"] == "ALLOW_WITH_CAPS") == ("caps" in response)


RESPONSES = {
    "decide": closed(DECISION, {**REASONS, **SCOPES}, capped),
    "reserve": closed({**DECISION, **SCOPES}, {**REASONS, **HOLD, **BALANCES}, capped),
    "commit": closed({"status": word("COMMITTED"), "charged": AMOUNT}, {"released": AMOUNT, **BALANCES}),
    "release": closed({"status": word("RELEASED"), "released": AMOUNT}, BALANCES),
    "error": closed({"error": CODE, "message": text(), "request_id": text()}, {**TRACE, "details": free}),
}


def dry_or_held(reserve):
    """A dry run holds nothing, and nothing else is denied."""
    request, response = reserve["request"], reserve["response"]
    if request.get("dry_run"):
        return "reservation_id" not in response and "expires_at_ms" not in response
    return response["decision"] != "DENY" and "reservation_id" in response


def artifact(kind, more={}, rule=lambda members: True):
    return closed({"request": REQUESTS[kind], "response": RESPONSES[kind], **more}, {}, rule)


def error(endpoint, kind, more={}):
    """A refusal, of which the request may be left out."""
    status, response = integer(400, 599), RESPONSES["error"]
    members = {"endpoint": text(pattern=re.escape(endpoint)), "http_status": status, "response": response, **more}
    return closed(members, {"request": REQUESTS[kind]})


ID = {"reservation_id": text(1)}
ARTIFACTS = {
    "decide": [artifact("decide")],
    "reserve": [artifact("reserve", rule=dry_or_held)],
    "commit": [artifact("commit", ID)],
    "release": [artifact("release", ID)],
    "error": [
        error("POST /v1/decide", "decide"),
        error("POST /v1/reservations", "reserve"),
        error("POST /v1/reservations/{reservation_id}/commit", "commit", ID),
        error("POST /v1/reservations/{reservation_id}/release", "release", ID),
    ],
}


def consistent(envelope):
    """The payload is of its type, and the name of a key is of the dialect."""
    payload, kind = envelope["payload"], envelope["artifact_type"]
    service, signer = envelope["schema_version"].split("-")[0], envelope["signer_did"]
    is_named = not signer.startswith("did:") or signer.startswith(f"did:{service}:")
    return is_named and payload.keys() == {kind} and any(fits(payload[kind]) for fits in ARTIFACTS[kind])


ENVELOPE = closed(
    {
        "schema_version": word("service-evidence/v0.1 cycles-evidence/v0.1"),
        "artifact_type": word(" ".join(ARTIFACTS)),
        "server_id": text(pattern="[A-Za-z][A-Za-z0-9+.-]*:[!-~]+"),
        "signer_did": text(pattern="[0-9a-f]{64}|did:[a-z]+:[0-9a-f]{64}#.+"),
        "issued_at_ms": integer(),
        "payload": free,
        "evidence_id": text(64, 64, "[0-9a-f]*"),
        "signature": text(128, 128, "[0-9a-f]*"),
    },
    TRACE,
    consistent,
)
