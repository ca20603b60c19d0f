"""Replicas of an operator as processes on a real control plane, each with its own credentials and proxy. The API server's audit log shows
which replica wrote when.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from bisect import bisect_right
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from operators import Operator

from konverge.clock import from_rfc3339
from konverge_testing import ControlPlane, FaultProxy

_SUPPORT = Path(__file__).parent


@dataclass(frozen=True)
class Written:
    """A successful write in the audit log: the replica, the object, and the interval of its handling by the API server."""

    user: str
    lease: bool
    uri: str
    received: datetime
    answered: datetime


@dataclass
class Member:
    name: str
    user: str
    operator: Operator
    proxy: FaultProxy

    def signal(self, number: signal.Signals) -> None:
        assert self.operator.process is not None
        os.kill(self.operator.process.pid, number)


class Fleet:
    """Processes of `copy_operator:build` that elect one of them in a namespace."""

    def __init__(self, plane: ControlPlane, namespace: str, folder: Path, *, lease: tuple[float, float, float]) -> None:
        self.plane = plane
        self.namespace = namespace
        self.folder = folder
        self.lease = lease
        self.members: dict[str, Member] = {}

    @contextlib.asynccontextmanager
    async def member(self, name: str) -> AsyncIterator[Member]:
        """Run one replica for a block; it need not live until the end of it."""
        user = f"{self.namespace}-{name}"
        token = self.plane.blocking.service_account_token("default", user)
        self.plane.blocking.api.create(
            "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": user},
                "subjects": [{"kind": "ServiceAccount", "name": user, "namespace": "default"}],
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            },
        )
        async with FaultProxy(self.plane.url, self.plane.ca_file) as proxy:
            kubeconfig = proxy.kubeconfig(self.folder / f"{name}.kubeconfig", token, namespace=self.namespace)
            operator = self.operator(name, kubeconfig)
            async with operator.running_for():
                found = self.members[name] = Member(name, f"system:serviceaccount:default:{user}", operator, proxy)
                await operator.ready()
                try:
                    yield found
                finally:
                    with contextlib.suppress(ProcessLookupError):
                        found.signal(signal.SIGCONT)
                    self.members.pop(name, None)

    def operator(self, name: str, kubeconfig: Path) -> Operator:
        """Return one replica, before its start."""
        lease, renew, retry = self.lease
        return Operator(
            (
                "copy_operator:build",
                *("--kubeconfig", str(kubeconfig), "--namespace", self.namespace, "--log-format", "json"),
                *("--metrics", "127.0.0.1:0", "--health", "127.0.0.1:0", "--debug", "127.0.0.1:0"),
                *(
                    "--set",
                    "election.enabled=true",
                    "--set",
                    "election.name=copies",
                    "--set",
                    f"election.identity={name}",
                ),
                *("--set", f"election.lease_seconds={lease}", "--set", f"election.renew_seconds={renew}"),
                *("--set", f"election.retry_seconds={retry}"),
            ),
            self.folder / f"{name}.log",
            environment={"PYTHONPATH": str(_SUPPORT)},
        )

    async def leads(self, member: Member) -> bool:
        """Ask a replica whether it leads."""
        _, text = await member.operator.answers("/readyz?verbose")
        return "leader-election ok (this process leads" in text

    def written(self) -> list[Written]:
        """Return the successful writes of the replicas in their namespace, in the order of receipt by the API server."""
        found = []
        for line in self.plane.audit_file.read_bytes().splitlines():
            with contextlib.suppress(json.JSONDecodeError):
                entry = json.loads(line)
                about = entry.get("objectRef") or {}
                code = (entry.get("responseStatus") or {}).get("code", 0)
                if (
                    entry.get("stage") == "ResponseComplete"
                    and about.get("namespace") == self.namespace
                    and entry["verb"] in {"create", "patch", "update", "delete"}
                    and 200 <= code < 300
                ):
                    found.append(
                        Written(
                            entry["user"]["username"],
                            about.get("resource") == "leases",
                            entry["requestURI"],
                            from_rfc3339(entry["requestReceivedTimestamp"]),
                            from_rfc3339(entry["stageTimestamp"]),
                        )
                    )
        return sorted(found, key=lambda one: one.received)

    async def audited(self) -> list[Written]:
        """Return the writes once the log has all of them: the API server writes the log a moment later."""
        await asyncio.sleep(0.5)
        return self.written()


def double_writes(log: list[Written], users: set[str]) -> list[tuple[Written, Written]]:
    """Return each write that was received after another replica's Lease write had completed, together with this Lease write."""
    found = []
    leases = sorted((one for one in log if one.lease and one.user in users), key=lambda one: one.answered)
    answered = [lease.answered for lease in leases]
    for write in log:
        if write.lease or write.user not in users:
            continue
        before = bisect_right(answered, write.received)
        if before and leases[before - 1].user != write.user:
            found.append((write, leases[before - 1]))
    return found
