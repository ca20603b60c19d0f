"""The requests of an agent to its control plane: the credential, and the meaning of each status of a response.

    401   the credential is read again once, then the agent stops      403   stops it
    429   waits for Retry-After                                        5xx, 3xx, no response   fails: the agent restarts
    404, 409 and the rest of 4xx go to the caller

A failed rotation changes nothing: the present credential stays valid, so the agent continues with it, reports the failure in its state, and
requests the rotation again. Only 401 and 403, which concern the session itself, stop the agent then.

Guarantees: a credential is stored before it is used for the first time, is sent only to the control plane that issued it, and is in no log
line, state or error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from random import Random
from typing import Final

import structlog

from konverge.clock import rfc3339
from konverge.errors import KonvergeError
from konverge.reconcilers.clusters import protocol
from konverge.reconcilers.clusters.agent_state import AgentConfig, StateReport, Step
from konverge.reconcilers.clusters.protocol import API, read, write
from konverge.reconcilers.clusters.secrets import (
    AgentCredentials,
    SecretStore,
    credentials_of,
    issued_elsewhere,
    server_of,
)
from konverge.reconcilers.clusters.transport import PlaneRequest, PlaneResponse, PlaneTransport
from konverge.reconcilers.clusters.words import Authenticated
from konverge.words import LogKey

__all__ = [
    "CONFLICT",
    "OK",
    "REFUSED",
    "RETRY_AFTER_MOST",
    "PlaneSession",
    "RotationRefused",
    "SessionFailed",
    "Stopped",
]

OK: Final = 200
CONFLICT: Final = 409
REFUSED: Final = 400
"""From this status on the control plane refused a request."""
RETRY_AFTER_MOST: Final = 3600.0
"""Seconds of a Retry-After that are waited for at most."""
_UNAUTHORIZED, _FORBIDDEN, _TOO_MANY = 401, 403, 429
_REDIRECTED, _FAILED = 300, 500
_SOONEST: Final = 1.0
_ROTATION_SOONEST: Final = 60.0
_ROTATION_MOST: Final = 3600.0
"""Seconds between two requests for a rotation that is refused."""


class Stopped(Exception):
    """The agent cannot continue until its Cluster or its credential changes; `reason` is a reason of Authenticated."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class SessionFailed(KonvergeError):
    """The control plane does not work at present."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class RotationRefused(KonvergeError):
    """The control plane issues no new credential at present; the current credential stays valid."""


class PlaneSession:
    """Sends requests with the valid credential; `authenticate` has to be called first."""

    def __init__(
        self,
        config: AgentConfig,
        *,
        secret: SecretStore,
        transport: PlaneTransport,
        report: StateReport,
        random: Random,
        now: Callable[[], datetime],
        log: structlog.typing.FilteringBoundLogger,
    ) -> None:
        self._config = config
        self._cluster_id = config.owner.cluster_id
        self._server = server_of(config.endpoint)
        self._secret = secret
        self._transport = transport
        self._report = report
        self._random = random
        self._now = now
        self._log = log
        self._credentials: AgentCredentials | None = None
        self._rotating = asyncio.Lock()

    async def call(
        self,
        method: str,
        path: str,
        body: protocol.PlaneMessage | None = None,
        *,
        query: Mapping[str, str] | None = None,
        wait: float = 0.0,
    ) -> PlaneResponse:
        """Send a request with the credential; returns a response of the ranges 2xx and 4xx, without 401, 403 and 429."""
        credential, response = await self._send(method, path, body, query or {}, wait)
        if response.status == _UNAUTHORIZED:
            stored = await self._stored()
            if stored is None or stored.credential == credential:
                raise Stopped(_why_unauthorized(response), "the control plane refuses the credential")
            self._use(stored)
            _, response = await self._send(method, path, body, query or {}, wait)
            if response.status == _UNAUTHORIZED:
                raise Stopped(_why_unauthorized(response), "the control plane refuses the credential")
        if response.status == _FORBIDDEN:
            raise Stopped(
                Authenticated.CONTROL_PLANE_AUTHENTICATION_FAILED,
                "the control plane forbids this cluster to work with it",
            )
        if response.status >= _FAILED or _REDIRECTED <= response.status < REFUSED:
            raise SessionFailed(f"the control plane responds with status {response.status}", response.retry_after)
        if response.status < _REDIRECTED and not _is_of_the_protocol(response):
            raise SessionFailed(
                f"a response of status {response.status} is not of the protocol: a proxy may answer in place of the control plane"
            )
        self._report.responded()
        return response

    async def _send(
        self, method: str, path: str, body: protocol.PlaneMessage | None, query: Mapping[str, str], wait: float
    ) -> tuple[str, PlaneResponse]:
        credential = "" if self._credentials is None else self._credentials.credential
        request = PlaneRequest(
            method=method,
            path=API + path,
            query=query,
            body=None if body is None else write(body),
            credential=credential,
            timeout=wait + self._config.settings.timeout.total_seconds(),
            most=self._config.settings.most_response,
        )
        while True:
            response = await self._transport.send(request)
            if response.status != _TOO_MANY:
                self._report.waits(None)
                return credential, response
            self._report.responded(connected=False)
            pause = min(max(response.retry_after or 0.0, _SOONEST), RETRY_AFTER_MOST)
            self._report.waits(self._now() + timedelta(seconds=pause))
            await asyncio.sleep(pause + self._random.uniform(0.0, 1.0))

    async def authenticate(self) -> None:
        """Read the credential; register if there is none, or a new token; replace the credential if a rotation is requested."""
        stored = credentials_of(await self._secret.find())
        if stored is not None and stored.cluster_id != self._cluster_id:
            stored = None
        new_token = self._config.token and (stored is None or stored.token_digest != self._config.token_digest)
        if new_token:
            stored = await self._register()
        if stored is None:
            raise Stopped(Authenticated.CREDENTIAL_MISSING, "there is no credential, and no token to register with")
        if not stored.belongs_to(self._server):
            raise Stopped(Authenticated.CREDENTIAL_MISSING, issued_elsewhere(stored, self._config.endpoint))
        if not stored.control_plane:  # of an earlier release: this control plane has it already
            stored = await self._secret.save_credentials(replace(stored, control_plane=self._server), now=self._now())
        self._use(stored)
        if self._config.rotate:
            await self._try_rotation(self._config.rotate)

    async def _stored(self) -> AgentCredentials | None:
        """Return the credential that is stored now, if it may be sent to this control plane."""
        stored = credentials_of(await self._secret.find())
        return stored if stored is not None and stored.belongs_to(self._server) else None

    async def repeat_rotation(self, wanted: Callable[[], str]) -> None:
        """Request a refused rotation again, until it is done or not wanted any more; ends only by being cancelled."""
        pause = _ROTATION_SOONEST
        while self._report.state.rotation and wanted():
            await asyncio.sleep(pause * self._random.uniform(1.0, 1.5))
            pause = min(pause * 2, _ROTATION_MOST)
            if request := wanted():
                await self._try_rotation(request)
        self._report.rotation("")
        await asyncio.get_running_loop().create_future()

    async def _try_rotation(self, request: str) -> None:
        """Replace the credential for the Cluster; a refusal is reported, and the present credential stays."""
        try:
            await self.rotate(request)
        except Stopped as stop:
            raise Stopped(Authenticated.ROTATION_FAILED, str(stop)) from None
        except RotationRefused as error:
            if not self._report.state.rotation:
                self._log.warning("the credential is not replaced; it is tried again", **{LogKey.ERROR: str(error)})
            self._report.rotation(f"{error}; it is tried again")
        else:
            self._report.rotation("")

    def _use(self, credentials: AgentCredentials | None) -> None:
        self._credentials = credentials
        self._report.uses(credentials)

    async def _register(self) -> AgentCredentials:
        self._report.enter(Step.REGISTERING)
        request = protocol.Register(cluster_id=self._cluster_id, registration_token=self._config.token)
        self._use(None)
        _, response = await self._send("POST", "/register", request, {}, 0.0)
        if response.status >= _FAILED or _REDIRECTED <= response.status < REFUSED:
            raise SessionFailed(f"the control plane responds to the registration with status {response.status}")
        if response.status >= REFUSED:
            why = "the token was used before" if response.status == CONFLICT else f"status {response.status}"
            raise Stopped(Authenticated.REGISTRATION_FAILED, f"the control plane refuses the registration: {why}")
        self._log.info("the cluster is registered")
        stamp = rfc3339(self._now())
        return await self._save(
            response,
            AgentCredentials(
                credential="",
                cluster_id=self._cluster_id,
                token_digest=self._config.token_digest,
                registered_at=stamp,
                issued_at=stamp,
                # A registration returns a new credential, so a rotation that was requested at the same time is done.
                rotated_for=self._config.rotate,
                control_plane=self._server,
            ),
        )

    async def _save(self, response: PlaneResponse, about: AgentCredentials) -> AgentCredentials:
        """Store the credential of a response before it is used for the first time."""
        try:
            issued = read(protocol.Credential, response.body)
        except protocol.Malformed as error:
            raise SessionFailed(str(error)) from None
        if issued.cluster_id != self._cluster_id:
            raise Stopped(Authenticated.REGISTRATION_FAILED, "the credential is for another cluster")
        return await self._secret.save_credentials(replace(about, credential=issued.credential), now=self._now())

    async def rotate(self, request: str) -> None:
        """Replace the credential, unless that was done for this request; raises RotationRefused if the control plane refuses."""
        async with self._rotating:
            stored = await self._stored()
            if stored is None:
                raise Stopped(Authenticated.CREDENTIAL_MISSING, "the Secret with the credential is gone")
            if stored.rotated_for != request:
                stamp = rfc3339(self._now())
                stored = await self._rotated(replace(stored, issued_at=stamp, rotated_for=request))
                self._log.info("the credential is replaced")
            self._use(stored)
            self._report.changed()

    async def _rotated(self, about: AgentCredentials) -> AgentCredentials:
        """Request a new credential and store it."""
        try:
            response = await self.call("POST", "/credentials/rotate", protocol.Rotate(cluster_id=self._cluster_id))
        except SessionFailed as error:
            raise RotationRefused(f"rotation of the credential: {error}") from None
        if response.status != OK:
            raise RotationRefused(
                f"the control plane responds to the rotation of the credential with status {response.status}"
            )
        try:
            return await self._save(response, about)
        except (SessionFailed, Stopped) as error:
            raise RotationRefused(f"rotation of the credential: {error}") from None


def _is_of_the_protocol(response: PlaneResponse) -> bool:
    """Tell whether the body of a successful response is empty or JSON, and not a page of a proxy."""
    body = response.body.strip()
    return not body or body[:1] in (b"{", b"[")


def _why_unauthorized(response: PlaneResponse) -> str:
    """Return the reason for a 401; the control plane's text is not passed on, because it may quote the credential."""
    try:
        told = read(protocol.PlaneProblem, response.body).reason
    except protocol.Malformed:
        told = ""
    expired = Authenticated.CREDENTIAL_EXPIRED
    return expired if told == expired else Authenticated.CREDENTIAL_REJECTED
