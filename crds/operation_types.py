"""The types of Operations, which `spec.type` admits; settings need them without the models."""

from __future__ import annotations

from typing import Literal

__all__ = ["OperationType"]

OperationType = Literal["Backup", "Restore", "Upgrade", "Migration", "RunCommand", "Runbook"]
