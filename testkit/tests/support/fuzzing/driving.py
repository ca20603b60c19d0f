"""Sends drawn requests to a new server in memory and reports the responses that no server should send."""

import asyncio
import json
import re
import time
import traceback
from collections.abc import Iterator
from random import Random
from typing import Any, Final

from fuzzing.calls import SETUP, Script, Sent

from konverge_testing import ApiServer
from konverge_testing.apiserver import protobuf
from konverge_testing.apiserver.faults.streams import close_lines
from konverge_testing.apiserver.requests import ADMIN, Call, Response, read_target
from konverge_testing.apiserver.shells import answered, refusal
from konverge_testing.apiserver.statuses import StatusError
from konverge_testing.loop import VirtualTimeLoop

_CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_LONGEST: Final = 1000.0
"""Seconds of virtual time."""
_MOST_CPU: Final = 2.0
_TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io"
_EXPECTED: Final = re.compile(
    "resourceVersion should not be set on|ParseUint: parsing|target.(kind|name): |failed to create typed patch object"
)
"""The words of a 500 that kube-apiserver gives too; each has a case of its own."""


def problems_of(script: Script) -> list[str]:
    """Send the requests of a script to a new server and return what is wrong with its responses."""
    loop = VirtualTimeLoop()
    try:
        return loop.run_until_complete(_problems(script))
    finally:
        loop.close()


async def _problems(script: Script) -> list[str]:
    found: list[str] = []
    place = script.place
    try:
        async with ApiServer(random=Random(1)) as server:
            seed = json.dumps(script.seed).encode()
            sent = list(script.requests)
            if place.seeds:
                sent.insert(0, Sent("POST", place.path, {"content-type": "application/json"}, seed))
            if place.custom:
                definition = next(one for one in SETUP if one["spec"]["names"]["plural"] == place.plural)
                made = Sent("POST", _CRDS, {"content-type": "application/json"}, json.dumps(definition).encode())
                sent.insert(0, made)
            sent.append(Sent("GET", place.path, {"accept": _TABLE}))
            for one in (*sent, *_served_by(script)):
                found += [f"{problem}\n  {one}" for problem in await _sent(server, one)]
                await _rest(server)
    except Exception:
        found.append(f"a controller of the server ended: {_where()}")
    return found


def _served_by(script: Script) -> Iterator[Sent]:
    """Yield requests for the kind that a drawn definition defines, if there is one."""
    if script.place.plural != "customresourcedefinitions":
        return
    try:
        yield from _requests_for(script.seed["spec"], script.objects)
    except (AttributeError, KeyError, TypeError):
        return  # the definition is refused


def _requests_for(spec: dict[str, Any], objects: dict[str, Any]) -> Iterator[Sent]:
    scope = "/namespaces/default" if spec["scope"] == "Namespaced" else ""
    for version in spec["versions"]:
        api_version = f"{spec['group']}/{version['name']}"
        path = f"/apis/{api_version}{scope}/{spec['names']['plural']}"
        body = {"apiVersion": api_version, "kind": spec["names"]["kind"], "metadata": {"name": "a"}, **objects}
        yield Sent("POST", path, {"content-type": "application/json"}, json.dumps(body).encode())
        yield Sent("GET", path, {"accept": _TABLE})
        merge = json.dumps(objects).encode()
        yield Sent("PATCH", f"{path}/a", {"content-type": "application/merge-patch+json"}, merge)


async def _rest(server: ApiServer) -> None:
    """Let the server's controllers react to the last request."""
    for _ in range(200):
        await asyncio.sleep(0)
        if server.idle:
            return


async def _sent(server: ApiServer, sent: Sent) -> list[str]:
    began = time.thread_time()
    try:
        async with asyncio.timeout(_LONGEST):
            try:
                answer = await answered(server.handle, _call(sent))
            except StatusError as error:
                answer = refusal(error)
            body = answer.body
            if answer.stream is not None:
                try:
                    async with asyncio.timeout(0.01):
                        body = await anext(answer.stream, b"{}")
                except TimeoutError:
                    body = b"{}"
                finally:
                    await close_lines(answer.stream)
    except TimeoutError:
        return ["no response"]
    except Exception:
        return [f"raised {_where()}"]
    found = list(_wrong(answer, body))
    used = time.thread_time() - began
    if used > _MOST_CPU:
        found.append(f"took {used:.1f} s of CPU time")
    return found


def _call(sent: Sent) -> Call:
    path, query = read_target(sent.target)
    headers, body = dict(sent.headers), sent.body
    if body and headers.get("content-type", "").startswith(protobuf.MEDIA_TYPE):  # as the shell over HTTP does
        headers["content-type"], body = "application/json", protobuf.as_json(body)
    return Call(sent.method, path, query, headers, body, ADMIN)


def _wrong(answer: Response, body: bytes) -> Iterator[str]:
    failed = answer.status in (500, 502, 503) or not 200 <= answer.status < 600
    if failed and not _EXPECTED.search(body.decode(errors="replace")):
        yield f"responded {answer.status}: {body[:500]!r}"
    if "json" in answer.content_type:
        try:
            data: Any = json.loads(body.decode())
        except ValueError:
            yield f"responded with what is not JSON: {body[:500]!r}"
        else:
            if (
                isinstance(data, dict)
                and data.get("kind") == "Status"
                and answer.status >= 400
                and data.get("code") != answer.status
            ):
                yield f"responded {answer.status} with the code {data.get('code')}"


def _where() -> str:
    return traceback.format_exc(limit=-6)
