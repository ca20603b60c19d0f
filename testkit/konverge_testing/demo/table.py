"""The table of `konverge demo`, with a section for each kind: redrawn on a terminal, one line for each change elsewhere.

Guarantees: rows are computed in pure functions; rich is imported only on a terminal.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

import click

from konverge.objects import Object
from konverge_testing.demo.samples import (
    CLUSTERS,
    INSTANCES,
    MACHINES,
    NEXTCLOUDS,
    OPERATIONS,
    POOLS,
    WORKSPACES,
    Expected,
)

if TYPE_CHECKING:
    from konverge.crds.machines_v1beta1 import NstanceMachinePool, NstanceShardGroup

__all__ = [
    "Row",
    "Table",
    "cluster_row",
    "converged",
    "machines_row",
    "nextcloud_row",
    "operation_row",
    "pool_row",
    "row_of",
    "workspace_row",
]


HEADS: Final = {
    INSTANCES: ("Instance", "Mode", "Chart", "Values", "Ready", "Reason", "Message"),
    OPERATIONS: ("Operation", "Type", "Engine", "Target", "Phase", "Reason", "Message"),
    CLUSTERS: ("Cluster", "Mode", "Control plane", "", "Phase", "Reason", "Message"),
    POOLS: ("Pool", "Wanted", "Idle", "Assigned", "Ready", "Reason", "Message"),
    WORKSPACES: ("Claim", "Replica", "URL", "Secret", "Phase", "Reason", "Message"),
    MACHINES: ("Machines", "Wanted", "Sizes", "Nodes", "Ready", "Reason", "Message"),
    NEXTCLOUDS: ("Nextcloud", "From", "Instance", "URL", "Assigned", "Reason", "Message"),
}
_SHORT: Final = {
    INSTANCES: "",
    OPERATIONS: "op/",
    CLUSTERS: "cluster/",
    POOLS: "pool/",
    NEXTCLOUDS: "nextcloud/",
    WORKSPACES: "",
    MACHINES: "machines/",
}
_HEADS_OF_STATE: Final = {INSTANCES: "Ready", MACHINES: "Ready", POOLS: "Ready", NEXTCLOUDS: "Assigned"}
_STYLES: Final = {
    "True": "green",
    "False": "yellow",
    "Unknown": "cyan",
    "Succeeded": "green",
    "Failed": "red",
    "Pending": "yellow",
    "Running": "cyan",
    "Connected": "green",
}


class Row(NamedTuple):
    """The state of one sample: an instance, an Operation, or a Cluster. The columns have the names of HEADS."""

    name: str
    mode: str
    chart: str
    values: str
    ready: str
    reason: str
    message: str
    section: str = INSTANCES

    @property
    def line(self) -> str:
        """The row as one line of a log."""
        head = _HEADS_OF_STATE.get(self.section, "Phase")
        owner = f"{self.mode} " if self.section == WORKSPACES else ""
        if self.section == MACHINES:
            owner = f"{self.mode} wanted ({self.chart}), {self.values} nodes, "
        state = f"{owner}{head}={self.ready or '?'} {self.reason}".rstrip()
        return f"{_SHORT[self.section]}{self.name:<6} {state}{': ' if self.message else ''}{self.message}"


def row_of(instance: Object) -> Row:
    """Return the row of an instance."""
    chart, ready = instance.get("spec", "chart", default={}), instance.find_condition("Ready")
    return Row(
        name=instance.name,
        mode=str(instance.get("spec", "mode", default="managed")),
        chart=f"{chart['name']} {chart['version']} ({chart['sourceType']})" if chart else "",
        values=str(instance.get("spec", "values", "source", default="")),
        ready=ready.status if ready else "",
        reason=ready.reason if ready else "",
        message=ready.message if ready else "",
    )


def operation_row(operation: Object) -> Row:
    """Return the row of an Operation: its phase, and the condition that explains it."""
    phase = str(operation.get("status", "phase", default=""))
    blocked = operation.find_condition("Blocked")
    waits = phase == "Pending" and blocked is not None and blocked.is_true
    message = blocked if waits else operation.find_condition("Accepted" if phase == "Pending" else phase)
    return Row(
        name=operation.name,
        mode=str(operation.get("spec", "type", default="")),
        chart=str(operation.get("spec", "engine", default="")),
        values=str(operation.get("spec", "targetRef", "name", default="")),
        ready=phase,
        reason=message.reason if message else "",
        message=message.message if message else "",
        section=OPERATIONS,
    )


def cluster_row(cluster: Object) -> Row:
    """Return the row of a Cluster: its phase, and its connection."""
    connected, authenticated = cluster.find_condition("Connected"), cluster.find_condition("Authenticated")
    refused = authenticated is not None and authenticated.status == "False"
    message = authenticated if refused else connected
    return Row(
        name=cluster.name,
        mode="pull",
        chart=str(cluster.get("spec", "controlPlaneEndpoint", default="")),
        values="",
        ready=str(cluster.get("status", "phase", default="")),
        reason=message.reason if message else "",
        message=message.message if message else "",
        section=CLUSTERS,
    )


def pool_row(pool: Object) -> Row:
    """Return the row of a pool: its numbers."""
    ready = pool.find_condition("Ready")
    return Row(
        name=pool.name,
        mode=str(pool.get("spec", "replicas", default=0)),
        chart=str(pool.get("status", "ready", default=0)),
        values=str(pool.get("status", "assigned", default=0)),
        ready=ready.status if ready else "",
        reason=ready.reason if ready else "",
        message=ready.message if ready else "",
        section=POOLS,
    )


def nextcloud_row(nextcloud: Object) -> Row:
    """Return the row of a Nextcloud: its instance, or why it has none."""
    condition = nextcloud.find_condition("InstanceAssigned")
    return Row(
        name=nextcloud.name,
        mode=str(nextcloud.get("status", "pool", default="") or ""),
        chart=str(nextcloud.get("status", "instanceRef", "name", default="") or ""),
        values=str(nextcloud.get("status", "url", default="") or ""),
        ready=condition.status if condition else "",
        reason=condition.reason if condition else "",
        message=condition.message if condition else "",
        section=NEXTCLOUDS,
    )


def workspace_row(claim: Object, replica: str) -> Row:
    """Return the row of a WorkspaceClaim and the replica that owns it."""
    condition = claim.find_condition("Available")
    return Row(
        name=claim.name,
        mode=replica,
        chart=str(claim.get("status", "clusterUrl", default="") or ""),
        values=str(claim.get("status", "kubeConfigSecret", "name", default="") or ""),
        ready=str(claim.get("status", "phase", default="") or ""),
        reason=condition.reason if condition else "",
        message=condition.message if condition else "",
        section=WORKSPACES,
    )


def machines_row(pool: NstanceMachinePool, owner: Object | None, groups: Iterable[NstanceShardGroup]) -> Row:
    """Return the row of a pool of machines: the replicas of its MachinePool, and its size on each shard."""
    ready = pool.find_condition("Ready")
    own = sorted((group for group in groups if group.spec.group == pool.spec.group), key=lambda item: item.spec.shard)
    return Row(
        name=pool.name,
        mode="?" if owner is None else str(owner.get("spec", "replicas", default=0)),
        chart=", ".join(f"{item.spec.shard} {item.spec.size}" for item in own),
        values=str(pool.status.nodes or 0),
        ready=ready.status if ready else "",
        reason=ready.reason if ready else "",
        message=ready.message if ready else "",
        section=MACHINES,
    )


def converged(rows: Iterable[Row], expected: Mapping[str, Expected], section: str = INSTANCES) -> bool:
    """Return whether every sample of a section has its expected end."""
    present = {row.name: Expected(row.ready, row.reason) for row in rows if row.section == section}
    return all(present.get(name) == end for name, end in expected.items())


class Table:
    """Shows rows repeatedly. A context manager; draws only inside it."""

    def __init__(self, *, live: bool | None = None) -> None:
        self._live = sys.stdout.isatty() if live is None else live
        self._screen: Any = None
        self._shown: dict[tuple[str, str], Row] = {}

    def __enter__(self) -> Self:
        if self._live:
            from rich.live import Live

            self._screen = Live(refresh_per_second=8)
            self._screen.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._screen is not None:
            self._screen.__exit__(kind, error, trace)
            self._screen = None

    def show(self, rows: Sequence[Row]) -> None:
        """Show these rows: the whole table on a terminal, else the lines that changed."""
        if self._screen is not None:
            self._screen.update(_render(rows))
        else:
            for row in rows:
                if self._shown.get((row.section, row.name)) != row:
                    click.echo(row.line)
        self._shown = {(row.section, row.name): row for row in rows}


def _render(rows: Sequence[Row]) -> Any:
    from rich.console import Group

    return Group(*(_drawing(section, [row for row in rows if row.section == section]) for section in HEADS))


def _drawing(section: str, rows: Sequence[Row]) -> Any:
    from rich.table import Table as Drawing
    from rich.text import Text

    drawing = Drawing(box=None, pad_edge=False, show_header=bool(rows))
    for head in HEADS[section]:
        drawing.add_column(head, overflow="fold")
    for row in rows:
        cells = [Text(str(cell)) for cell in row[: len(HEADS[section])]]
        cells[4].stylize(_STYLES.get(row.ready, "dim"))
        drawing.add_row(*cells)
    return drawing
