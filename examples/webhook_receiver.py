#!/usr/bin/env python3
"""Receives webhooks: verifies each signature, drops repeats, and prints one line per event.

    WEBHOOK_SECRET_FILE=secret python3 webhook_receiver.py [PORT]

It needs Python 3.9 and nothing else. WEBHOOK_SECRET can hold the secret itself.
"""

import hashlib
import hmac
import json
import os
import sys
from collections import OrderedDict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

BODY_MAX = 1_000_000
SEEN_MAX = 100_000


def secret_from_environment():
    """The whole signing secret, with its `whsec_` if it has one."""
    path = os.environ.get("WEBHOOK_SECRET_FILE")
    if path:
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    secret = os.environ.get("WEBHOOK_SECRET")
    if not secret:
        sys.exit("set WEBHOOK_SECRET or WEBHOOK_SECRET_FILE to the signing secret of the subscription")
    return secret


def is_signed(secret, body, signature):
    """Whether `signature` is that of the exact bytes of `body`, compared in constant time."""
    expected = "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(expected.encode(), signature.encode())


class Receiver(BaseHTTPRequestHandler):
    """Answers 204 to what is signed, 401 to what is not."""

    protocol_version = "HTTP/1.1"  # Keeps connections open between events.
    timeout = 120
    secret = ""
    # Real receivers keep the ids where a restart does not lose them, in the same transaction as what they do with the event.
    seen = OrderedDict()

    def do_POST(self):
        length = int(self.headers.get("Content-Length", "0"))
        if not 0 < length <= BODY_MAX:
            self.close_connection = True
            return self.answer(413)
        body = self.rfile.read(length)  # Verify first, parse later.
        if not is_signed(self.secret, body, self.headers.get("X-Service-Signature", "")):
            return self.answer(401)
        event = json.loads(body)
        if event["event_id"] not in self.seen:
            self.seen[event["event_id"]] = True
            while len(self.seen) > SEEN_MAX:
                self.seen.popitem(last=False)
            print(event["timestamp"], event["event_type"], json.dumps(event.get("data", {})), flush=True)
        self.answer(204)  # After the work, or after it is stored: a lost answer brings the event again.

    def answer(self, status):
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        """Prints nothing but events."""


if __name__ == "__main__":
    Receiver.secret = secret_from_environment()
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 9000
    server = ThreadingHTTPServer(("127.0.0.1", port), Receiver)
    print(f"listening on http://127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever()
