"""Cron schedules as kube-apiserver checks them.

Guarantees: pure; `wrong_schedule` returns the message of github.com/robfig/cron/v3 for the first error.
"""

from __future__ import annotations

import re
from typing import Final

from konverge_testing.apiserver.schemas.times import is_go_duration

__all__ = ["wrong_schedule"]

_MONTHS: Final = {
    name: index
    for index, name in enumerate(
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"], 1
    )
}
_DAYS: Final = {name: index for index, name in enumerate(["sun", "mon", "tue", "wed", "thu", "fri", "sat"])}
_FIELDS: Final[tuple[tuple[int, int, dict[str, int]], ...]] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, _MONTHS),
    (0, 6, _DAYS),
)
_NAMED: Final = frozenset({"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"})


def wrong_schedule(schedule: str) -> str | None:
    """Return the error of a schedule, None for a valid schedule.

    >>> wrong_schedule("*/5 * * * mon-fri"), wrong_schedule("@daily")
    (None, None)
    >>> wrong_schedule("61 * * * *")
    'end of range (61) above maximum (59): 61'
    """
    if schedule.startswith(("TZ=", "CRON_TZ=")):
        schedule = schedule.partition(" ")[2].strip()
    if schedule.startswith("@"):
        return _descriptor(schedule)
    fields = schedule.split()
    if len(fields) != 5:
        return f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]"
    for text, (low, high, words) in zip(fields, _FIELDS, strict=True):
        for part in filter(None, text.split(",")):
            try:
                _check_range(part, low, high, words)
            except ValueError as error:
                return str(error)
    return None


def _descriptor(text: str) -> str | None:
    if text in _NAMED:
        return None
    if not text.startswith("@every "):
        return f"unrecognized descriptor: {text}"
    duration = text.removeprefix("@every ")
    return None if is_go_duration(duration) else f'failed to parse duration {text}: time: invalid duration "{duration}"'


def _check_range(text: str, low: int, high: int, words: dict[str, int]) -> None:
    parts = text.split("/")
    ends = parts[0].split("-")
    if ends[0] in ("*", "?"):
        start, end = low, high
    else:
        start = _number(ends[0], words)
        if len(ends) > 2:
            raise ValueError(f"too many hyphens: {text}")
        end = _number(ends[1], words) if len(ends) == 2 else start
    step = 1
    if len(parts) > 2:
        raise ValueError(f"too many slashes: {text}")
    if len(parts) == 2:
        step = _number(parts[1], {})
        end = high if len(ends) == 1 else end
    if start < low:
        raise ValueError(f"beginning of range ({start}) below minimum ({low}): {text}")
    if end > high:
        raise ValueError(f"end of range ({end}) above maximum ({high}): {text}")
    if start > end:
        raise ValueError(f"beginning of range ({start}) beyond end of range ({end}): {text}")
    if step == 0:
        raise ValueError(f"step of range should be a positive number: {text}")


def _number(text: str, words: dict[str, int]) -> int:
    if text.lower() in words:
        return words[text.lower()]
    if not re.fullmatch(r"[+-]?[0-9]+", text):
        raise ValueError(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax')
    number = int(text)
    if number < 0:
        raise ValueError(f"negative number ({number}) not allowed: {text}")
    return number
