"""Strict JSON, and its canonical form (RFC 8785)."""

import json
import math
from decimal import Decimal

MALFORMED = (ValueError, ArithmeticError, RecursionError)


def refuse(reason):
    raise ValueError(reason)


def parse(document, levels, integer=int):
    """The value of UTF-8 bytes: no member twice, no lone surrogate, no number beyond a double, and nested at most so deep."""
    value = json.loads(document.decode(), object_pairs_hook=unique, parse_int=integer, parse_constant=refuse)
    canonical(value, levels)
    return value


def unique(members):
    return dict(members) if len(dict(members)) == len(members) else refuse("a member occurs twice")


def exact(literal):
    """An integer whose digits the canonical form keeps."""
    return int(literal) if number(float(literal)) == str(int(literal)) else refuse(f"the canonical form rounds {literal}")


def canonical(value, levels):
    """Its bytes."""
    return write(value, levels).encode()


def write(value, levels):
    if isinstance(value, (dict, list)) and levels == 0:
        refuse("nested too deep")
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: name.encode("utf-16-be"))
        return "{" + ",".join(write(name, 0) + ":" + write(value[name], levels - 1) for name in names) + "}"
    if isinstance(value, list):
        return "[" + ",".join(write(item, levels - 1) for item in value) + "]"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return number(float(value))
    return json.dumps(value, ensure_ascii=False)


def number(double):
    """A double as ECMAScript prints it: `repr` finds the same digits, and places the point otherwise."""
    if double == 0 or not math.isfinite(double):
        return "0" if double == 0 else refuse("a number is beyond the range of a double")
    negative, digits, exponent = Decimal(repr(double)).normalize().as_tuple()
    digits, point = "".join(map(str, digits)), len(digits) + exponent
    if len(digits) <= point <= 21:
        digits += "0" * (point - len(digits))
    elif 0 < point <= 21:
        digits = digits[:point] + "." + digits[point:]
    elif -6 < point <= 0:
        digits = "0." + "0" * -point + digits
    else:
        digits = digits[0] + ("." + digits[1:]) * (len(digits) > 1) + f"e{point - 1:+d}"
    return "-" * negative + digits
