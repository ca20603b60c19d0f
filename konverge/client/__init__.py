"""The only room that talks HTTP to an API server.

    config.py       the address of the API server and the credentials for it
      in_cluster.py   ... from the mounted ServiceAccount, followed when it rotates
      kubeconfig.py   ... from a kubeconfig, through kubernetes_asyncio (imported there, lazily, and nowhere else)
      exec_plugin.py  ... and from the plugin that it names
      credentials.py  authorization and TLS material, and their sources; tls.py and proxy.py beside it
    requests.py     requests as data: pure building
    responses.py    bodies of successful responses: objects, pages, and the events of a watch; depth.py: JSON that is nested too deeply
    status.py       unsuccessful responses as typed errors
    retry.py        retries and their backoff: pure decisions, and the tenacity objects that execute them
    transport.py    the interfaces of transports and fences
    http_transport.py  the transport by aiohttp: calls over its connections, at about half of what a session costs; watches
    sessions.py     aiohttp's sessions and their sockets: keepalive, the fence of each send
    fence.py        the last check before the bytes of a write are sent: whether this process still leads
    sender.py       one call: slot, attempts, credentials, metrics; tracing.py: with a span for each attempt
    targets.py      the object or collection that a path names
    discovery.py    the resources that the server serves
    guarded.py      writes that change only the version of the object that was read (`expect`): pure
    ledger.py       the writes of this process, until the caches show them
    websockets.py   the messages of a websocket, and the refusal to open it
    pages.py follow.py   lists in pages, watches and waits for scripts
    pod_logs.py pod_exec.py port_forward.py   logs, commands in containers, connections to ports
    core.py         the parts that all verbs share, and the two writes of the runtime
    read_verbs.py script_verbs.py pod_verbs.py   the verbs that read, for scripts, for the containers of a pod
    client.py       the client: these verbs and the writes

Guarantees: every call has a deadline and every watch a read-idle timeout. A request is repeated only if that is safe. A write that was
cancelled or lost its response is recorded as possibly done. No body is ever logged.
"""

from __future__ import annotations

from konverge.client.client import Client
from konverge.client.config import ClientConfig
from konverge.client.depth import LEFT_OUT, flattened
from konverge.client.follow import ObjectEvent
from konverge.client.ledger import Ledger, LedgerStatistics, PendingWrite, Write, WriteState
from konverge.client.pod_exec import CommandResult, PodProcess
from konverge.client.port_forward import PortConnection
from konverge.client.resources import Listing, ListQuery, Page, ResourceInfo, WatchQuery
from konverge.client.responses import WatchEvent, WatchIdle, WatchStream, decode_as, decode_object
from konverge.client.settings import ClientSettings
from konverge.client.shapes import ConditionShape
from konverge.client.status import missing_rule, namespace_is_ending, status_error
from konverge.client.transport import Fence, OpenStream, OpensWebSockets, Response, Transport, WebSocket

__all__ = [
    "LEFT_OUT",
    "Response",
    "Client",
    "ClientConfig",
    "ClientSettings",
    "CommandResult",
    "ConditionShape",
    "Fence",
    "Ledger",
    "LedgerStatistics",
    "ListQuery",
    "Listing",
    "ObjectEvent",
    "OpenStream",
    "OpensWebSockets",
    "Page",
    "ResourceInfo",
    "PendingWrite",
    "PodProcess",
    "PortConnection",
    "Transport",
    "WatchEvent",
    "WatchIdle",
    "WatchQuery",
    "WatchStream",
    "WebSocket",
    "Write",
    "WriteState",
    "decode_as",
    "decode_object",
    "flattened",
    "missing_rule",
    "namespace_is_ending",
    "status_error",
]
