"""Parses the body of a response to a poll into its jobs, each job by itself. Pure.

Guarantees: a job that is not JSON, or that is nested too deeply, costs no other job of the response. Of such a job only
its id and its key are kept, so that it can be refused by a result.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from konverge.client import LEFT_OUT, flattened
from konverge.reconcilers.clusters.protocol import Malformed

__all__ = ["TOO_DEEP", "Delivered", "read_batch"]

_LEVELS: Final = 100
"""Levels of a response at most: no object of the protocol has twenty, and encoders and servers fail beyond a few hundred."""
TOO_DEEP: Final = "the job is nested too deeply; make its values flatter"
_NO_JSON: Final = "the job is not JSON"


@dataclass(frozen=True, slots=True)
class Delivered:
    """A job as it was delivered. Of an unreadable job: its id and key, and why it is unreadable."""

    raw: Mapping[str, Any] = field(default_factory=dict)
    problem: str = ""


class _Batch(msgspec.Struct):
    jobs: list[msgspec.Raw]


class _Head(msgspec.Struct, rename="camel"):
    id: Any = None
    idempotency_key: Any = None


_BATCH: Final = msgspec.json.Decoder(_Batch)
_HEAD: Final = msgspec.json.Decoder(_Head)


def read_batch(body: bytes) -> tuple[Delivered, ...]:
    """Return the jobs of a response; raises Malformed unless it is a batch.

    >>> [delivered.problem for delivered in read_batch(b'{"jobs": [{"id": "a"}, {"id": "b", "payload": NaN}]}')]
    ['', 'the job is not JSON']
    """
    text = flattened(body, _LEVELS)
    try:
        jobs: Iterable[bytes] = [bytes(job) for job in _BATCH.decode(text).jobs]
    except (msgspec.DecodeError, UnicodeDecodeError):
        jobs = _leniently(text)
    return tuple(map(_read, jobs))


def _leniently(text: bytes) -> list[bytes]:
    """Return the jobs of a response that holds NaN or halves of surrogate pairs, which other encoders write and ours refuses."""
    try:
        batch = json.loads(text)
        return [json.dumps(job).encode() for job in batch["jobs"]]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise Malformed("JobBatch: the body is no JSON") from None


def _read(job: bytes) -> Delivered:
    try:
        decoded = msgspec.json.decode(job)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Delivered(_head(job), _NO_JSON)
    if not isinstance(decoded, dict):
        return Delivered(problem=_NO_JSON)
    return Delivered(_head(job), TOO_DEEP) if LEFT_OUT in job else Delivered(decoded)


def _head(job: bytes) -> dict[str, Any]:
    try:
        head: Mapping[str, Any] = msgspec.structs.asdict(_HEAD.decode(job))
    except (msgspec.DecodeError, UnicodeDecodeError):
        try:
            fields = json.loads(job)
        except (ValueError, RecursionError):
            return {}
        head = {"id": fields.get("id"), "idempotency_key": fields.get("idempotencyKey")}
    return {"id": head["id"], "idempotencyKey": head["idempotency_key"]}
