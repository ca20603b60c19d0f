"""The state of a control plane for one cluster, and the response to each request. Pure: no waiting, no clock.

A credential that was issued becomes valid beside the present one, and replaces it when it is used for the first time: a response that is
lost locks no agent out. A job is delivered until it is acknowledged or has a result.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import count
from typing import Any, Final

import msgspec

from konverge.clock import rfc3339
from konverge.reconcilers.clusters import protocol
from konverge.reconcilers.clusters.protocol import (
    API,
    MOST_WAIT,
    JobResult,
    JobStatus,
    Malformed,
    StatusEvent,
    read,
    write,
)
from konverge.reconcilers.clusters.transport import PlaneRequest, PlaneResponse
from konverge.reconcilers.clusters.words import Authenticated

__all__ = ["PlaneState", "StoredJob", "poll_wait"]

_JOB: Final = re.compile(rf"{API}/jobs/([^/]+)/(ack|status|result)")
_REJECTED: Final = Authenticated.CREDENTIAL_REJECTED
_MOST_LIMIT: Final = 100


@dataclass(slots=True, kw_only=True)
class StoredJob:
    """A job and the agent's report of it."""

    message: dict[str, Any]
    text: bytes | None = None
    """Sent instead of `message`, for tests of jobs that are not valid JSON."""
    deliveries: int = 0
    acks: int = 0
    states: list[JobStatus] = field(default_factory=list)
    result: JobResult | None = None
    repeated: int = 0
    """How often the agent sent a different result for it."""

    def body(self) -> bytes:
        """Return the job as it is delivered."""
        return msgspec.json.encode(self.message) if self.text is None else self.text

    @property
    def open(self) -> bool:
        """Whether it is delivered to polls."""
        return self.acks == 0 and self.result is None


def problem(status: int, reason: str, message: str = "", *, retry_after: float | None = None) -> PlaneResponse:
    """Return an unsuccessful response."""
    body = write(protocol.PlaneProblem(reason=reason, message=message))
    return PlaneResponse(status=status, body=body, retry_after=retry_after)


def poll_wait(request: PlaneRequest) -> float:
    """Return the seconds that a poll for jobs waits; 0 for every other request."""
    wait = request.query.get("wait", "30")
    if request.method != "GET" or not wait.isdigit():
        return 0.0
    return float(min(int(wait), MOST_WAIT))


class PlaneState:
    """Jobs, credentials and events of one cluster. `secret` generates a credential."""

    def __init__(self, cluster_id: str, tokens: tuple[str, ...], secret: Callable[[], str]) -> None:
        self.cluster_id = cluster_id
        self.jobs: dict[str, StoredJob] = {}
        self.events: dict[str, StatusEvent] = {}
        """Events by their keys, in the order of their arrival."""
        self._dropped: dict[str, int] = {}
        """The greatest reported number of dropped events, by buffer."""
        self.registrations = 0
        self.redeliver = False
        """Deliver acknowledged jobs again and again, like a control plane that lost its state."""
        self.pages = True
        """Whether polls support `after`; otherwise each poll begins with the oldest job."""
        self.refuses_unknown = False
        """Respond with 400 to a poll with an unknown parameter."""
        self.valid: str = ""
        """The credential that was used last."""
        self._secret = secret
        self._tokens = dict.fromkeys(tokens, True)
        self._issued: dict[str, str] = {}
        self.expired: set[str] = set()
        self._numbers = count(1)

    @property
    def dropped(self) -> int:
        """Events that the agent's buffers dropped."""
        return sum(self._dropped.values())

    def allow(self, token: str) -> None:
        """Accept another registration token, once."""
        self._tokens[token] = True

    def revoke(self) -> None:
        """Revoke all credentials that were issued up to now."""
        self.valid = ""
        self._issued.clear()

    def expire(self) -> None:
        """Let the present credential expire: it is refused with the reason CredentialExpired."""
        self.expired.add(self.valid)
        self.revoke()

    def submit(
        self, kind: str, payload: Mapping[str, Any], *, key: str, now: datetime, lifetime: float, job_id: str = ""
    ) -> str:
        """Add a job; returns its id."""
        result = job_id or f"job-{next(self._numbers)}"
        self.jobs[result] = StoredJob(
            message={
                "id": result,
                "kind": kind,
                "payload": dict(payload),
                "idempotencyKey": key or f"key-{result}",
                "createdAt": rfc3339(now),
                "expiresAt": rfc3339(now + timedelta(seconds=lifetime)),
            }
        )
        return result

    # --- requests ------------------------------------------------------------------------------------------------------------

    def respond(self, request: PlaneRequest) -> PlaneResponse:
        """Carry out a request."""
        try:
            if (request.method, request.path) == ("POST", f"{API}/register"):
                return self._register(read(protocol.Register, request.body or b""))
            refused = self._unauthorized(request.credential)
            return refused or self._authorized(request)
        except Malformed as error:
            return problem(400, "Malformed", str(error))

    def _unauthorized(self, credential: str) -> PlaneResponse | None:
        if not credential or credential not in {self.valid, *self._issued}:
            expired = credential in self.expired
            return problem(401, Authenticated.CREDENTIAL_EXPIRED if expired else _REJECTED)
        if credential in self._issued:
            token = self._issued[credential]
            if token:
                self._tokens[token] = False  # used up: the registration is known to have arrived
            self.valid = credential
            self._issued.clear()
        return None

    def _issue(self, token: str) -> PlaneResponse:
        credential = self._secret()
        self._issued[credential] = token
        body = write(protocol.Credential(cluster_id=self.cluster_id, credential=credential))
        return PlaneResponse(status=201 if token else 200, body=body)

    def _register(self, request: protocol.Register) -> PlaneResponse:
        usable = self._tokens.get(request.registration_token)
        if usable is None:
            return problem(401, "TokenUnknown")
        if request.cluster_id != self.cluster_id:
            return problem(403, "TokenOfAnotherCluster")
        if not usable:
            return problem(409, "TokenUsed")
        self.registrations += 1
        return self._issue(request.registration_token)

    def _authorized(self, request: PlaneRequest) -> PlaneResponse:
        match request.method, request.path:
            case "GET", path if path == f"{API}/jobs":
                return self._poll(request)
            case "POST", path if path == f"{API}/events":
                return self._take_events(read(protocol.EventBatch, request.body or b""))
            case "POST", path if path == f"{API}/credentials/rotate":
                if read(protocol.Rotate, request.body or b"").cluster_id != self.cluster_id:
                    return problem(403, "AnotherCluster")
                return self._issue("")
        match = _JOB.fullmatch(request.path)
        if request.method != "POST" or match is None:
            return problem(404, "NoSuchPath")
        return self._of_job(match[1], match[2], request.body or b"")

    def _poll(self, request: PlaneRequest) -> PlaneResponse:
        if request.query.get("cluster") != self.cluster_id:
            return problem(403, "AnotherCluster")
        limit = request.query.get("limit", str(_MOST_LIMIT))
        if not request.query.get("wait", "30").isdigit() or not limit.isdigit():
            return problem(400, "Malformed", "wait and limit are numbers")
        if self.refuses_unknown and not self.pages and "after" in request.query:
            return problem(400, "Malformed", "after is not known")
        result = self._offered(request)[: max(int(limit), 1)]
        for job in result:
            job.deliveries += 1
        return PlaneResponse(status=200, body=b'{"jobs":[' + b",".join(job.body() for job in result) + b"]}")

    def _offered(self, request: PlaneRequest) -> list[StoredJob]:
        """Return the jobs after the job that a poll names, or all jobs if the poll names no known job."""
        after, ids = request.query.get("after", ""), [*self.jobs]
        first = ids.index(after) + 1 if self.pages and after in self.jobs else 0
        return [job for job in (self.jobs[item] for item in ids[first:]) if job.open or self.redeliver]

    def _take_events(self, batch: protocol.EventBatch) -> PlaneResponse:
        if batch.cluster_id != self.cluster_id:
            return problem(403, "AnotherCluster")
        seen = self._dropped.get(batch.buffer, 0)
        # An agent without a name for its buffer reports the events that it dropped since the batch before.
        self._dropped[batch.buffer] = max(seen, batch.dropped_in_all) if batch.buffer else seen + batch.dropped
        for event in batch.events:
            self.events.setdefault(event.key, event)
        return PlaneResponse(status=204)

    def _of_job(self, job_id: str, verb: str, body: bytes) -> PlaneResponse:
        job = self.jobs.get(job_id)
        if job is None:
            return problem(404, "NoSuchJob")
        if verb == "ack":
            job.acks += 1
            return problem(409, "AcknowledgedBefore") if job.acks > 1 else PlaneResponse(status=204)
        if verb == "status":
            job.states.append(read(JobStatus, body))
            return PlaneResponse(status=204) if job.result is None else problem(409, "HasResult")
        result = read(JobResult, body)
        if job.result is not None:
            job.repeated += 1
            return problem(409, "HasResult")
        job.result = result
        return PlaneResponse(status=204)

    def ready(self, request: PlaneRequest) -> bool:
        """Return whether a poll gets a response at once."""
        return self._unauthorized(request.credential) is not None or bool(self._offered(request))
