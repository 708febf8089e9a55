"""Ed25519 keys, and the key sets that publish them."""

import base64
import math

from canonical import parse, refuse
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

P = 2**255 - 19
D = -121665 * pow(121666, -1, P)
ORDER_8 = int.from_bytes(bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"), "little")


def is_point(raw):
    """Whether these bytes are a point of the curve, in its only encoding, and not of small order."""
    y = int.from_bytes(raw, "little") % 2**255
    square = (y * y - 1) * (D * y * y + 1)  # That of x, times another one.
    return len(raw) == 32 and y < P and y not in (0, 1, P - 1, ORDER_8, P - ORDER_8) and pow(square, P // 2, P) == 1


def has_signed(raw, signature, message):
    """Whether a signature is that of the key, in the strict sense: nobody can make it without the private key."""
    try:
        Ed25519PublicKey.from_public_bytes(raw).verify(signature, message)
        return is_point(raw) and is_point(signature[:32])
    except InvalidSignature:
        return False


def keys_of(key_set, service):
    """Id, bytes, start and end of each valid key of a set. Other entries are somebody else's."""
    whole = parse(key_set, 64)
    entries = whole.get("keys") if isinstance(whole, dict) else None
    for jwk in entries if isinstance(entries, list) else refuse("it has no keys"):
        try:
            raw = base64.urlsafe_b64decode(jwk["x"] + "=")
            is_x = is_point(raw) and base64.urlsafe_b64encode(raw).decode() == jwk["x"] + "="
            start, end = jwk[f"{service}_nbf_ms"], jwk.get(f"{service}_exp_ms")
            is_window = all(type(time) is int and -(2**63) <= time < 2**63 for time in (start, start if end is None else end))
            is_ours = (jwk["kty"], jwk["crv"]) == ("OKP", "Ed25519") and jwk.get("alg") in (None, "EdDSA")
            if is_x and is_window and is_ours and isinstance(jwk["kid"], str) and jwk["kid"]:
                yield jwk["kid"], raw, start, math.inf if end is None else end
        except (AttributeError, KeyError, TypeError, ValueError):
            continue
