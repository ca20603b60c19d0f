"""The deletion of an instance, a part at a time."""

from __future__ import annotations
