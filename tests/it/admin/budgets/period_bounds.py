"""Prints all starts of periods from 2020 to 2040, in milliseconds since the epoch: a line for each [every, zone, anchor] of stdin."""

import calendar
import json
import re
import sys
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
FROM, TO = (datetime(year, 1, 1, tzinfo=timezone.utc) for year in (2020, 2041))


def months_after(local, months):
    years, month = divmod(local.year * 12 + local.month - 1 + months, 12)
    day = min(local.day, calendar.monthrange(years, month + 1)[1])
    return local.replace(year=years, month=month + 1, day=day)


def start(anchor, k, number, component):
    """Of a local time that occurs twice, fold 0 is the earlier; one that does not exist has the offset of before the shift."""
    if component == "H":
        return anchor.astimezone(timezone.utc) + timedelta(hours=k * number)
    local = anchor.replace(tzinfo=None)
    if component in "DW":
        local += timedelta(days=k * number * {"D": 1, "W": 7}[component])
    else:
        local = months_after(local, k * number * {"M": 1, "Y": 12}[component])
    return local.replace(tzinfo=anchor.tzinfo, fold=0).astimezone(timezone.utc)


def starts(every, zone, anchor):
    number, component = re.fullmatch(r"PT?(\d+)([A-Z])", every).groups()
    zone = ZoneInfo(zone)
    anchor = datetime.fromisoformat(anchor).astimezone(zone) if anchor else datetime(2024, 1, 1, tzinfo=zone)
    of = lambda k: start(anchor, k, int(number), component)
    k = 0
    while of(k) > FROM:
        k -= 1
    while of(k) < TO:
        yield (of(k) - EPOCH) // timedelta(milliseconds=1)
        k += 1


for line in sys.stdin:
    print(*starts(*json.loads(line)))
