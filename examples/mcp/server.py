#!/usr/bin/env python3
"""A server of the Model Context Protocol, over standard input and output: gives an agent the tools to keep to a budget.

    {"mcpServers": {"budget": {"command": "python3", "args": ["…/examples/mcp/server.py"],
      "env": {"BUDGET_URL": "…", "BUDGET_API_KEY": "…", "BUDGET_KEY_HEADER": "…"}}}}

`make run` prints the three. It needs Python 3.9 and nothing else, and works in both dialects. Whom it charges is decided here and not by
the agent; restrict its key to that scope too.
"""

import http.client
import json
import os
import sys
import time
import urllib.error
import urllib.request

SUBJECT = {"tenant": "demo", "app": "chat", "agent": "helper"}
ACTION = {"kind": "llm.completion", "name": "any-model"}
UNIT = "USD_MICROCENTS"

KEY = {"idempotency_key": {"type": "string", "description": "Names this attempt. Repeat it to retry, never for anything else."}}
MONEY = {"amount": {"type": "integer", "minimum": 0, "description": "In US dollars / 100,000,000."}}
RESERVATION = {"reservation_id": {"type": "string"}}
TIME = {"extend_by_ms": {"type": "integer", "minimum": 1}}
# Name: what it is for, and its arguments, all of which are required.
TOOLS = {
    "reserve": ("Reserve the estimate before you act. An error means no: do not act.", {**KEY, **MONEY}),
    "extend": ("Keep a reservation while you still act. It lasts a minute at first.", {**RESERVATION, **KEY, **TIME}),
    "commit": ("Charge what the action cost; the rest of the reservation returns.", {**RESERVATION, **KEY, **MONEY}),
    "release": ("Return the whole reservation if you did not act.", {**RESERVATION, **KEY}),
}


def post(path, body):
    """Status and body. After a lost response the outcome is unknown, so the same request goes out again, with the same key."""
    head = {os.environ["BUDGET_KEY_HEADER"]: os.environ["BUDGET_API_KEY"], "Content-Type": "application/json"}
    request = urllib.request.Request(f"{os.environ['BUDGET_URL']}/v1/{path}", json.dumps(body).encode(), head)
    for attempt in range(5):
        time.sleep(0.2 * attempt)
        try:
            with urllib.request.urlopen(request, timeout=10) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as refused:
            if refused.code < 500:
                return refused.code, refused.read().decode()
        except (OSError, http.client.HTTPException):
            pass
    return 503, "The outcome is unknown. Call the tool again with the same idempotency_key, and do not act before it responds."


def call(name, arguments):
    """Calls a tool; a refusal is an error of the tool, which the agent reads."""
    _, properties = TOOLS[name]
    if arguments.keys() != properties.keys():
        return {"content": [{"type": "text", "text": f"the arguments are {', '.join(properties)}"}], "isError": True}
    key = {"idempotency_key": arguments["idempotency_key"]}
    amount = {"unit": UNIT, "amount": arguments.get("amount")}
    path = f"reservations/{urllib.request.quote(arguments.get('reservation_id', ''), safe='')}/{name}"
    status, text = {
        "reserve": lambda: post("reservations", {**key, "subject": SUBJECT, "action": ACTION, "estimate": amount}),
        "extend": lambda: post(path, {**key, "extend_by_ms": arguments["extend_by_ms"]}),
        "commit": lambda: post(path, {**key, "actual": amount}),
        "release": lambda: post(path, key),
    }[name]()
    return {"content": [{"type": "text", "text": text}], "isError": status != 200}


def respond(method, params):
    """The result of a request, or `None` for a method that does not exist."""
    if method == "initialize":
        info = {"name": "budget-authority", "version": "0.1.0"}
        return {"protocolVersion": params.get("protocolVersion", "2025-06-18"), "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "ping":
        return {}
    if method == "tools/list":
        schema = lambda members: {"type": "object", "properties": members, "required": list(members), "additionalProperties": False}
        return {"tools": [{"name": name, "description": text, "inputSchema": schema(of)} for name, (text, of) in TOOLS.items()]}
    if method == "tools/call" and params.get("name") in TOOLS:
        return call(params["name"], params.get("arguments", {}))
    return None


if __name__ == "__main__":
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue  # A notification.
        result = respond(message.get("method"), message.get("params", {}))
        missing = {"error": {"code": -32601, "message": "no such method or tool"}}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **(missing if result is None else {"result": result})}), flush=True)
