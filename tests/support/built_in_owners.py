"""An owner of one child of each built-in kind; the bodies are taken from the conformance suite's kinds."""

from pathlib import Path
from typing import Any, Final

from widgets import By, Widget, widget
from yaml_files import load_yaml

import konverge as kv
from konverge.kinds import Kind, kind
from konverge_testing import Lab

_ROWS: Final = load_yaml(Path(__file__).parents[2] / "testkit/tests/conformance/kinds.yaml")
BODIES: Final[dict[str, dict[str, Any]]] = {
    name: row for name, row in _ROWS.items() if "body" in row and not row.get("custom") and row.get("namespaced", True)
}
"""The namespaced built-in kinds, each with an accepted body."""


def child(row: dict[str, Any], name: str, namespace: str) -> Any:
    """Return an object of a kind with its body."""
    metadata = {**row["body"].get("metadata", {}), "name": name, "namespace": namespace}
    body = _placed(row["body"], namespace) | {"apiVersion": row["api"], "kind": row["kind"], "metadata": metadata}
    return _kind(row).decode(body)


def _kind(row: dict[str, Any]) -> Kind[Any]:
    return kind(row["api"], row["kind"], plural=row["plural"])


def _placed(value: Any, namespace: str) -> Any:
    if isinstance(value, dict):
        return {key: _placed(below, namespace) for key, below in value.items()}
    if isinstance(value, list):
        return [_placed(item, namespace) for item in value]
    return value.replace("$ns", namespace) if isinstance(value, str) else value


def owner_of(*names: str) -> Any:
    """Return a scenario with a widget for each of these kinds, which owns one child of the kind."""

    async def reconcile(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        await ctx.own(child(BODIES[w.name], f"{w.name}-child", w.namespace))
        ctx.status.set_condition("Ready", True, "Made")
        return kv.Done()

    def build(manager: kv.Manager) -> None:
        grants = kv.Rule("rbac.authorization.k8s.io", ("roles",), ("bind", "escalate"))
        controller = kv.Controller.of(Widget).needs(grants)
        for owned in dict.fromkeys(_kind(BODIES[name]) for name in names):
            controller = controller.owns(owned)
        manager.add(controller.reconciled_by(By(reconcile)))

    async def scenario(lab: Lab) -> None:
        await lab.start(build)
        for name in names:
            await lab.create(widget(name))
        for name in names:
            await lab.until(Widget, name, kv.is_true("Ready"))

    return scenario
