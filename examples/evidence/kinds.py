"""What a member may hold: each function makes a check of a value, or is one."""

import re

INT64 = 2**63 - 1


def text(least=0, most=INT64, pattern=".*"):
    """A text of so many characters, all of which the pattern matches."""
    return lambda value: isinstance(value, str) and least <= len(value) <= most and re.fullmatch(pattern, value, re.S)


def word(words):
    return lambda value: isinstance(value, str) and value in words.split()


def integer(least=0, most=INT64):
    return lambda value: type(value) is int and least <= value <= most


def array(item, most=INT64):
    return lambda value: isinstance(value, list) and len(value) <= most and all(map(item, value))


def closed(required, optional={}, rule=lambda members: True):
    """An object that has all required members, perhaps some optional ones, and no others; and a rule for all together."""
    kinds = {**required, **optional}
    return lambda value: (
        isinstance(value, dict)
        and required.keys() <= value.keys() <= kinds.keys()
        and all(kinds[name](member) for name, member in value.items())
        and rule(value)
    )


def flag(value):
    return isinstance(value, bool)


def free(value):
    return isinstance(value, dict)


def labels(value):
    return isinstance(value, dict) and len(value) <= 16 and all(map(text(0, 256), value.values()))


def all_of(names, kind):
    return dict.fromkeys(names.split(), kind)
