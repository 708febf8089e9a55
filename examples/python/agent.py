#!/usr/bin/env python3
"""An agent with a budget, by the published client `runcycles` (pip install runcycles==0.5.3), in the dialect `cycles`.

    export CYCLES_BASE_URL=… CYCLES_API_KEY=… CYCLES_TENANT=demo     # as `make run ARGS='--dialect cycles …'` prints them
    python3 examples/python/agent.py
"""

import uuid

from runcycles import (
    Action,
    Amount,
    BudgetExceededError,
    CommitRequest,
    CyclesClient,
    CyclesConfig,
    ReservationCreateRequest,
    ReservationExtendRequest,
    Subject,
    Unit,
    cycles,
)

client = CyclesClient(CyclesConfig.from_env())
SUBJECT = Subject(tenant="demo", app="chat", agent="helper")
ACTION = Action(kind="llm.completion", name="any-model")


def sent(call, *request):
    """The body of a success. After a lost response the outcome is unknown, so the same request goes out again: the idempotency key in
    it makes sure that it has one effect."""
    for _ in range(5):
        response = call(*request)
        if not (response.is_transport_error or response.is_server_error):
            break
    if not response.is_success:
        raise SystemExit(f"refused: {response.error_message}")
    return response.body


def microcents(amount):
    return Amount(unit=Unit.USD_MICROCENTS, amount=amount)


def reservation(estimate):
    return ReservationCreateRequest(
        idempotency_key=str(uuid.uuid4()), subject=SUBJECT, action=ACTION, estimate=microcents(estimate), ttl_ms=10_000
    )


def streaming_step():
    """Half a cent for a step that streams."""
    request = reservation(500_000)
    made = sent(client.create_reservation, request)
    print("reserved", made["reserved"]["amount"])
    again = sent(client.create_reservation, request)
    assert again["reservation_id"] == made["reservation_id"]
    print("the same request again: the same reservation")
    # The hold lasts ten seconds. A stream extends it as long as it needs; `client.stream_reservation` does so by itself.
    for _chunk in range(3):
        extend = ReservationExtendRequest(idempotency_key=str(uuid.uuid4()), extend_by_ms=10_000)
        sent(client.extend_reservation, made["reservation_id"], extend)
    print("extended 3 times")
    # It was cheaper than estimated: the rest returns.
    commit = CommitRequest(idempotency_key=str(uuid.uuid4()), actual=microcents(320_000))
    done = sent(client.commit_reservation, made["reservation_id"], commit)
    print(f"committed {done['charged']['amount']}; {done['released']['amount']} returned")


def dearer_step():
    """What the budget has left pays for the overage. The response may be lost here too."""
    made = sent(client.create_reservation, reservation(500_000))
    commit = CommitRequest(idempotency_key=str(uuid.uuid4()), actual=microcents(650_000))
    done, again = (sent(client.commit_reservation, made["reservation_id"], commit) for _ in range(2))
    assert done["charged"] == again["charged"]
    print(f"a commit above its hold: {done['charged']['amount']} charged")


# The short way: reserves before the call, commits after it, and does not call where a budget lacks funds. The unit is that of money.
@cycles(estimate=60_000_000_000, client=client, app="chat", agent="helper", action_kind="llm.completion", action_name="any-model")
def call_the_model():
    raise AssertionError("a denied agent does not act")


if __name__ == "__main__":
    streaming_step()
    dearer_step()
    try:
        call_the_model()
    except BudgetExceededError as denied:
        print(f"denied: {denied.error_code}; the agent stops")
    client.close()
