#!/usr/bin/env python3
"""Verifies a signed envelope and prints its disposition; exits with 0 if that is `authentic`.

    python3 verifier.py ENVELOPE [KEY_SET [SERVER_ID]]

It needs Python 3.9 and the package `cryptography`. docs/evidence-format.md describes the format.
"""

import hashlib
import json
import sys

from canonical import MALFORMED, canonical, exact, parse, refuse
from keys import has_signed, keys_of
from shapes import ENVELOPE

LEVELS = 72


def verify(document, key_set=None, server_id=None):
    """The disposition of an envelope. `document`, `key_set`: bytes, `None` without a set; `server_id`: the issuer, if known."""
    try:
        envelope, signed = read(document)
    except MALFORMED:
        return "signature_invalid"
    try:
        disposition = judge(envelope, signed, key_set)
    except MALFORMED:
        disposition = "signer_resolution_failed"
    if disposition != "signature_invalid" and server_id not in (None, envelope["server_id"]):
        return "signer_authority_failed"
    return disposition


def read(document):
    """An envelope that is closed and has the id of its content, and the bytes that are signed."""
    envelope = json.loads(canonical(parse(document, LEVELS, exact), LEVELS))
    if not ENVELOPE(envelope):
        refuse("it is no envelope")
    signed = canonical({**envelope, "signature": ""}, LEVELS)
    unnamed = canonical({**envelope, "signature": "", "evidence_id": ""}, LEVELS)
    if hashlib.sha256(unnamed).hexdigest() != envelope["evidence_id"]:
        refuse("evidence_id is that of other content")
    return envelope, signed


def judge(envelope, signed, key_set):
    """The signature first, then who had the key at that time."""
    signer, issued_at, signature = envelope["signer_did"], envelope["issued_at_ms"], bytes.fromhex(envelope["signature"])
    name, _, kid = signer.partition("#")
    raw = None if kid else bytes.fromhex(signer)
    if raw and not has_signed(raw, signature, signed):
        return "signature_invalid"
    if key_set is None:
        return "binding_only" if raw else "signer_resolution_failed"
    keys = keys_of(key_set, envelope["schema_version"].split("-")[0])
    named = [key for key in keys if (key[0] == kid if kid else key[1] == raw)]
    covering = [key for key in named if key[2] <= issued_at < key[3]]
    tried = covering if len(covering) == 1 else named
    if len(tried) == 1 and not has_signed(tried[0][1], signature, signed):
        return "signature_invalid"
    is_bound = raw or name.endswith(hashlib.sha256(envelope["server_id"].encode()).hexdigest())
    return "authentic" if is_bound and len(covering) == 1 else "signer_authority_failed"


if __name__ == "__main__":
    files = [open(path, "rb").read() for path in sys.argv[1:3]]
    disposition = verify(*files, *sys.argv[3:])
    print(disposition)
    sys.exit(disposition != "authentic")
