"""The controller of NextcloudPools: it creates, replaces and deletes unassigned instances."""

from __future__ import annotations
