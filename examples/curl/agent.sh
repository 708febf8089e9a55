#!/bin/sh
# An agent with a budget, by curl alone: reserves, extends while it streams, commits, retries, and stops when it is denied.
#
#     export BUDGET_URL=… BUDGET_API_KEY=… BUDGET_KEY_HEADER=…     # as `make run` prints them
#     examples/curl/agent.sh
#
# It works in both dialects: only the header of the key differs.
set -eu
run=$(date +%s)-$$
about='"subject": {"tenant": "demo", "app": "chat", "agent": "helper"}, "action": {"kind": "llm.completion", "name": "any-model"}'

# Sends a request; sets `status` and `body`. After a timeout, a broken connection or a 5xx the outcome is unknown, so the same goes out
# again: the idempotency key in it makes sure that it has one effect.
post() {
	for pause in 0 1 2 4; do
		sleep $pause
		body=$(curl -sS --max-time 10 -w '\n%{http_code}' -H "$BUDGET_KEY_HEADER: $BUDGET_API_KEY" \
			-H 'Content-Type: application/json' "$BUDGET_URL/v1/$1" -d "$2") || continue
		status=${body##*
}
		body=${body%
*}
		[ "$status" -ge 500 ] || return 0
	done
	echo "the service is out of reach" >&2
	exit 1
}

# The value of a member of the body; of an amount, its number.
text() {
	echo "$body" | sed -n 's/.*"'"$1"'":"\([^"]*\)".*/\1/p'
}
amount() {
	echo "$body" | sed -n 's/.*"'"$1"'":{[^}]*"amount":\(-\{0,1\}[0-9]*\).*/\1/p'
}

microcents() {
	echo "{\"unit\": \"USD_MICROCENTS\", \"amount\": $1}"
}

reserve() { # key, estimate
	post reservations "{\"idempotency_key\": \"$1\", $about, \"estimate\": $(microcents "$2"), \"ttl_ms\": 10000}"
}

commit() { # id, key, actual
	post "reservations/$1/commit" "{\"idempotency_key\": \"$2\", \"actual\": $(microcents "$3")}"
	[ "$status" = 200 ] || { echo "not committed: $body" >&2; exit 1; }
}

# Half a cent for a step that streams. An agent that does not know whether its request arrived sends the same again.
reserve "$run-1" 500000
[ "$status" = 200 ] || { echo "denied: $body" >&2; exit 1; }
id=$(text reservation_id)
echo "reserved $(amount reserved)"
reserve "$run-1" 500000
[ "$(text reservation_id)" = "$id" ]
echo "the same request again: the same reservation"

# The hold lasts ten seconds. A stream extends it as long as it needs.
for chunk in 1 2 3; do
	post "reservations/$id/extend" "{\"idempotency_key\": \"$run-1-$chunk\", \"extend_by_ms\": 10000}"
	[ "$status" = 200 ] || { echo "not extended, so end the stream: $body" >&2; exit 1; }
done
echo "extended 3 times"

# It was cheaper than estimated: the rest returns.
commit "$id" "$run-1-end" 320000
echo "committed $(amount charged); $(amount released) returned"

# The next one is dearer: what the budget has left pays for the overage. The response may be lost here too.
reserve "$run-2" 500000
id=$(text reservation_id)
commit "$id" "$run-2-end" 650000
charged=$(amount charged)
commit "$id" "$run-2-end" 650000
[ "$(amount charged)" = "$charged" ]
echo "a commit above its hold: $charged charged"

# More than there is: a denial is final, so the agent does not act. Nothing is held.
reserve "$run-3" 60000000000
[ "$status" = 409 ]
echo "denied: $(text error); the agent stops"
