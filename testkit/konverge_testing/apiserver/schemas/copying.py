"""Fresh copies of JSON data: a default is stored once and handed out many times."""

from __future__ import annotations

from typing import Any

__all__ = ["copied"]


def copied(value: Any) -> Any:
    """Copy JSON data deeply."""
    if value.__class__ is dict:
        return {key: copied(item) for key, item in value.items()}
    if value.__class__ is list:
        return [copied(item) for item in value]
    return value
