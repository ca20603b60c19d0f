"""The messages between the agent and a control plane, and their limits. Pure.

Guarantees: reading never quotes what it refuses, so that no credential reaches a log line through an error. Unknown fields are ignored, so
that a newer control plane does not break an older agent. `docs/reference/pull-protocol.json` is generated from these models.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from konverge.crds.decoding import misfits, problem_words
from konverge.errors import KonvergeError

__all__ = [
    "API",
    "MEDIA_TYPE",
    "MOST_EVENTS",
    "MOST_WAIT",
    "Credential",
    "EventBatch",
    "FieldOwner",
    "Job",
    "JobKind",
    "JobBatch",
    "JobStatus",
    "Malformed",
    "PlaneMessage",
    "ObjectIdentity",
    "ProtocolOperation",
    "OPERATIONS",
    "Outcome",
    "PlaneProblem",
    "Register",
    "JobResult",
    "Rotate",
    "StatusEvent",
    "read",
    "write",
]

MEDIA_TYPE: Final = "application/vnd.vworkspace.agent.v1+json"
API: Final = "/api/agent"
MOST_WAIT: Final = 300
"""Seconds that a long poll lasts at most."""
MOST_EVENTS: Final = 100
"""Events in one request at most."""
_ID: Final = r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$"


class Malformed(KonvergeError):
    """A message that does not have the form of the protocol; the text names the field and never the value."""


class PlaneMessage(BaseModel):
    """The base of the messages: snake_case here, camelCase on the wire."""

    model_config = ConfigDict(
        frozen=True,
        extra="ignore",
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        hide_input_in_errors=True,
    )


Id = Annotated[str, Field(pattern=_ID)]
Text = Annotated[str, Field(max_length=1024)]
Token = Annotated[str, Field(min_length=1, max_length=8192, repr=False)]


HeaderToken = Annotated[str, Field(min_length=1, max_length=8192, pattern=r"^[\x21-\x7e]+$", repr=False)]
"""A token that a header can carry: another one would make every later request fail."""


JobKind = Literal["apply", "delete", "intent"]


class Outcome(StrEnum):
    """How a job ended."""

    SUCCEEDED = "succeeded"
    """Applied: the API server has stored it. Whether it becomes ready is reported by events."""
    FAILED = "failed"
    NOOP = "noop"
    """Nothing was to be done: a repeated job, an expired one, or a state that was there already."""
    CONFLICT = "conflict"
    """Another field manager owns a field; nothing was changed."""


class Register(PlaneMessage):
    """The request to register a cluster by its registration token."""

    cluster_id: Id
    registration_token: Token
    agent_version: Text = ""


class Rotate(PlaneMessage):
    """The request to replace the credential by a new one."""

    cluster_id: Id


class Credential(PlaneMessage):
    """A credential, bound to one cluster; visible ASCII characters, because it is sent in a header.

    The credential that it replaces stays valid until this one is used, so a response that is lost locks no agent out.
    """

    cluster_id: Id
    credential: HeaderToken


class Job(PlaneMessage):
    """One job. A key of the form `kind/namespace/name@generation`, or a hash of the intent, makes repeated deliveries harmless."""

    id: Id
    kind: JobKind
    payload: dict[str, Any]
    idempotency_key: Annotated[str, Field(min_length=1, max_length=512)]
    created_at: AwareDatetime
    expires_at: AwareDatetime
    cluster_id: str = ""
    """The cluster for which it is meant; empty: the one that polls."""
    signature: str | None = None
    """Reserved; not checked."""


class JobBatch(PlaneMessage):
    """The response to a poll; each job is read by itself, so that a malformed one does not stop the others."""

    jobs: tuple[dict[str, Any], ...] = ()


class JobStatus(PlaneMessage):
    """The state of a job that is not finished."""

    state: Literal["running", "retrying"]
    message: Text = ""


class FieldOwner(PlaneMessage):
    """A field that another manager owns."""

    manager: str
    path: str


class ObjectIdentity(PlaneMessage):
    """The object that a job or an event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str = ""
    generation: int = 0


class JobResult(PlaneMessage):
    """How a job ended."""

    idempotency_key: str
    outcome: Outcome
    reason: Annotated[str, Field(pattern=r"^[A-Za-z]{1,64}$")]
    message: Text = ""
    conflicts: tuple[FieldOwner, ...] = ()
    object: ObjectIdentity | None = None
    finished_at: AwareDatetime


class StatusEvent(PlaneMessage):
    """A condition of an object. Two events of one key are the same one.

    `snapshot` is the present state, sent after a reconnection; `transition` a change as it was seen; `deleted` has no condition.
    """

    key: Annotated[str, Field(min_length=1, max_length=1024)]
    type: Literal["transition", "snapshot", "deleted"]
    object: ObjectIdentity
    condition: str = ""
    status: Literal["True", "False", "Unknown", ""] = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str = ""


class EventBatch(PlaneMessage):
    """Events, the oldest first."""

    cluster_id: Id
    events: Annotated[tuple[StatusEvent, ...], Field(max_length=MOST_EVENTS)]
    dropped: Annotated[int, Field(ge=0)] = 0
    """Events that did not fit into the agent's buffer since the last batch with a response. A batch whose response is lost is sent again,
    so a sum of these may count an event twice."""
    buffer: Annotated[str, Field(max_length=64)] = ""
    """The name of the agent's buffer: another one after each start of the agent."""
    dropped_in_all: Annotated[int, Field(ge=0)] = 0
    """Events that did not fit into this buffer since it was made. The greatest number of each buffer is exact, whatever comes twice."""


class PlaneProblem(PlaneMessage):
    """The body of an unsuccessful response."""

    reason: str = ""
    message: str = ""


class ProtocolOperation(PlaneMessage):
    """One operation of the protocol, as the OpenAPI document describes it."""

    name: str
    method: Literal["GET", "POST"]
    path: str
    request: str = ""
    """The model of the request's body."""
    response: str = ""
    """The model of the body of a successful response."""
    success: int = 200
    failures: tuple[int, ...]
    authenticated: bool = True


_ALWAYS = (400, 401, 403, 429, 500, 503)
OPERATIONS: Final = (
    ProtocolOperation(
        name="register",
        method="POST",
        path=f"{API}/register",
        request="Register",
        response="Credential",
        success=201,
        failures=(*_ALWAYS, 409),
        authenticated=False,
    ),
    ProtocolOperation(
        name="rotateCredentials",
        method="POST",
        path=f"{API}/credentials/rotate",
        request="Rotate",
        response="Credential",
        failures=_ALWAYS,
    ),
    ProtocolOperation(name="listJobs", method="GET", path=f"{API}/jobs", response="JobBatch", failures=(*_ALWAYS, 404)),
    ProtocolOperation(
        name="ackJob", method="POST", path=f"{API}/jobs/{{id}}/ack", success=204, failures=(*_ALWAYS, 404, 409)
    ),
    ProtocolOperation(
        name="reportJobStatus",
        method="POST",
        path=f"{API}/jobs/{{id}}/status",
        request="JobStatus",
        success=204,
        failures=(*_ALWAYS, 404, 409),
    ),
    ProtocolOperation(
        name="reportJobResult",
        method="POST",
        path=f"{API}/jobs/{{id}}/result",
        request="JobResult",
        success=204,
        failures=(*_ALWAYS, 404, 409),
    ),
    ProtocolOperation(
        name="sendEvents",
        method="POST",
        path=f"{API}/events",
        request="EventBatch",
        success=204,
        failures=(*_ALWAYS, 404, 409),
    ),
)

M = TypeVar("M", bound=PlaneMessage)


def read(model: type[M], data: bytes | Mapping[str, Any]) -> M:
    """Return a message; raises Malformed with the path of the first field that does not fit.

    >>> read(Rotate, b'{"clusterId": "east"}').cluster_id
    'east'
    """
    try:
        return model.model_validate(msgspec.json.decode(data) if isinstance(data, bytes) else data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Malformed(f"{model.__name__}: the body is no JSON") from None
    except ValidationError as error:
        first = misfits(error)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the message"
        raise Malformed(f"{model.__name__}: {where}: {problem_words(first)}") from None


def write(message: PlaneMessage) -> bytes:
    """Return the bytes of a message."""
    return msgspec.json.encode(message.model_dump(mode="json", by_alias=True, exclude_none=True))
