"""The three kinds of patch other than apply: JSON patch, merge patch and strategic merge patch.

Guarantees: pure functions over plain data; arguments are not changed. A patch that cannot be applied is a StatusError in the
server's words. Server-side apply is in the package `apply`.
"""

from __future__ import annotations

from konverge_testing.apiserver.patch.decoding import decode_patch, strict_problems
from konverge_testing.apiserver.patch.jsonpatches import MAX_OPERATIONS, json_patch
from konverge_testing.apiserver.patch.mergepatches import merge_patch
from konverge_testing.apiserver.patch.strategic import strategic_merge

__all__ = ["MAX_OPERATIONS", "decode_patch", "json_patch", "merge_patch", "strategic_merge", "strict_problems"]
