"""A control plane for agents in pull mode, for tests and as an example for programs that build one: the whole protocol, and its faults.

    plane = AgentServer("east", tokens=("secret",))
    job = plane.submit("intent", {"intent": "ensure-application-instance", "namespace": "web", "name": "shop", "spec": {...}})
    clusters.install(manager, settings, connect=plane.connect)      # in the same process, also in virtual time
    await plane.result(job)                                         # how it ended

    async with serving(plane) as url: ...                           # over HTTP, on the loopback
    web.run_app(application(plane))                                 # over HTTP, as a process

    state.py    jobs, credentials and events of one cluster; decides every response (pure)
    faults.py   statuses, cut connections, slow responses, repeated deliveries, by request
    server.py   `AgentServer`: both together, with long polls; and the transport without sockets
    http.py     the aiohttp application

The document of the protocol is docs/reference/pull-protocol.json; every exchange of the tests is compared with it.
"""

from __future__ import annotations

from konverge_testing.agent_server.faults import Fault, Faults
from konverge_testing.agent_server.http import application, serving
from konverge_testing.agent_server.server import AgentServer, Exchange

__all__ = ["AgentServer", "Exchange", "Fault", "Faults", "application", "serving"]
