#!/usr/bin/env python3
"""Verifies a signed envelope with a key set, and prints what was attested.

    python3 evidence_verifier.py ENVELOPE KEY_SET

It needs Python 3.9 and the package `cryptography`. docs/evidence.md describes the format.
"""

import base64
import hashlib
import json
import math
import sys

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey


def canonical(value):
    """The canonical form of RFC 8785."""
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: name.encode("utf-16-be"))
        return "{" + ",".join(canonical(name) + ":" + canonical(value[name]) for name in names) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return number(float(value))
    return json.dumps(value, ensure_ascii=False)


def number(double):
    """A number as ECMAScript prints it: `repr` has the digits, and only writes the exponent elsewhere."""
    if not math.isfinite(double):
        raise ValueError("a number beyond the range of a double")
    if double == 0:
        return "0"
    sign = "-" if double < 0 else ""
    mantissa, _, exponent = repr(abs(double)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    fraction = "" if fraction == "0" else fraction
    digits = (whole + fraction).lstrip("0")
    point = len(digits) - len(fraction) + int(exponent or 0)
    digits = digits.rstrip("0")
    if len(digits) <= point <= 21:
        return sign + digits + "0" * (point - len(digits))
    if 0 < point <= 21:
        return sign + digits[:point] + "." + digits[point:]
    if -6 < point <= 0:
        return sign + "0." + "0" * -point + digits
    tail = "." + digits[1:] if digits[1:] else ""
    return f"{sign}{digits[0]}{tail}e{point - 1:+d}"


def unique(members):
    """An object, in which no name may occur twice."""
    if len(dict(members)) != len(members):
        raise ValueError("a member occurs twice")
    return dict(members)


def integer(literal):
    """An integer that its canonical form would round is not what was signed."""
    if number(float(literal)) != str(int(literal)):
        raise ValueError(f"the canonical form rounds {literal}")
    return int(literal)


def verify(envelope, key_set):
    """Returns the payload, or raises: `ValueError` for what is no envelope, `LookupError` where the key set has no key for it."""
    service = envelope["schema_version"].removesuffix("-evidence/v0.1")
    if service not in ("service", "cycles"):
        raise ValueError("an unknown format")
    unsigned = canonical({**envelope, "signature": ""})
    unnamed = canonical({**envelope, "signature": "", "evidence_id": ""})
    if hashlib.sha256(unnamed.encode()).hexdigest() != envelope["evidence_id"]:
        raise ValueError("evidence_id is not that of the content")
    server_id, signer, issued = envelope["server_id"], envelope["signer_did"], envelope["issued_at_ms"]
    bound = f"did:{service}:{hashlib.sha256(server_id.encode()).hexdigest()}#"

    def signed(jwk):
        """Whether the key may have signed the envelope: by its name or by itself, and by its window."""
        try:
            raw = base64.urlsafe_b64decode(jwk["x"] + "=").hex()
            kind = (jwk["kty"], jwk["crv"], jwk.get("alg") or "EdDSA")
            until = jwk.get(f"{service}_exp_ms")
            valid = jwk[f"{service}_nbf_ms"] <= issued and (until is None or issued < until)
            return kind == ("OKP", "Ed25519", "EdDSA") and signer in (raw, bound + jwk["kid"]) and valid
        except (KeyError, TypeError, ValueError):
            return False  # A key of another kind, which is somebody else's.

    keys = [jwk for jwk in key_set["keys"] if signed(jwk)]
    if len(keys) != 1:
        raise LookupError("the key set has no key, or more than one, that may have signed this")
    key = Ed25519PublicKey.from_public_bytes(base64.urlsafe_b64decode(keys[0]["x"] + "="))
    key.verify(bytes.fromhex(envelope["signature"]), unsigned.encode())
    return envelope["payload"]


def load(path):
    """JSON of a file."""
    with open(path, encoding="utf-8") as file:
        return json.load(file, object_pairs_hook=unique, parse_int=integer)


if __name__ == "__main__":
    try:
        payload = verify(load(sys.argv[1]), load(sys.argv[2]))
    except (ValueError, LookupError, InvalidSignature, TypeError) as refused:
        sys.exit(f"refused: {refused or 'the signature does not hold'}")
    print(json.dumps(payload, indent=2, ensure_ascii=False))
