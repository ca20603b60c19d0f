"""RBAC rules that are withdrawn while an operator runs: a single controller reports the missing rule, the others continue, and the
controller recovers by itself.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio
import structlog
import yaml
from widgets import CONFIG_MAP, By, Widget, widget

import konverge as kv
from konverge.crds import crd
from konverge.informers import InformerSettings
from konverge.kinds import kind
from konverge.runtime import ManagerSettings
from konverge.runtime.http.health import ProbeResponse, Question, answer, checks_of
from konverge_testing import ControlPlane, Lab, install_crds
from konverge_testing.clients import ClientFor

pytestmark = pytest.mark.control_plane

ROLE = kind("rbac.authorization.k8s.io/v1", "Role")
REVIEW = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
GROUP = "tests.konverge.dev"


class GaugeSpec(kv.Model):
    size: int = 1


@kv.resource(f"{GROUP}/v1", conditions=("Ready",))
class Gauge(kv.CustomResource[GaugeSpec, kv.Status]):
    """The neighbour, whose rights never change."""


async def make_part(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
    await ctx.own(CONFIG_MAP.new(f"of-{w.name}"))
    ctx.status.set_condition("Ready", True, "Made")
    return kv.Done()


async def mark_ready(gauge: Gauge, ctx: kv.Context[Gauge]) -> kv.Outcome:
    ctx.status.set_condition("Ready", True, "Seen")
    return kv.Done()


def build(manager: kv.Manager) -> None:
    manager.add(kv.Controller.of(Widget).owns(CONFIG_MAP).with_(max_delay=1.0).reconciled_by(By(make_part)))
    manager.add(kv.Controller.of(Gauge).reconciled_by(By(mark_ready)))


@dataclass(frozen=True)
class Guarded:
    """A manager that runs with exactly the rules that it declares, until they are withdrawn."""

    lab: Lab
    rules: list[dict[str, Any]]

    async def withdraw(self, resource: str, *verbs: str) -> None:
        """Remove verbs on a resource from the role."""
        left = [
            {
                **rule,
                "resources": [one],
                "verbs": [verb for verb in rule["verbs"] if one != resource or verb not in verbs],
            }
            for rule in self.rules
            for one in rule["resources"]
        ]
        await self._write([rule for rule in left if rule["verbs"]])
        await self._allowed(resource, verbs[0], expected=False)

    async def restore(self) -> None:
        await self._write(self.rules)

    async def _write(self, rules: list[dict[str, Any]]) -> None:
        await self.lab.client.patch(ROLE, "operator", self.lab.namespace, patch={"rules": rules}, style="merge")

    async def _allowed(self, resource: str, verb: str, *, expected: bool) -> None:
        """Wait until the API server enforces the new rules; its authorizer watches them like any other client."""
        main, _, subresource = resource.partition("/")
        attributes = {
            "namespace": self.lab.namespace,
            "verb": verb,
            "group": "" if main == "configmaps" else GROUP,
            "resource": main,
            "subresource": subresource,
        }
        user = f"system:serviceaccount:{self.lab.namespace}:operator"
        review = {**REVIEW, "spec": {"user": user, "resourceAttributes": attributes}}
        async with asyncio.timeout(60):
            while True:
                answered = await self.lab.client.raw("POST", REVIEWS, body=review)
                if json.loads(answered)["status"]["allowed"] is expected:
                    return
                await asyncio.sleep(0.02)

    @property
    def why(self) -> str:
        return self.lab.manager.report().of("widget").why

    async def until(self, test: Callable[[], bool], *, timeout: float = 60.0) -> None:
        async with asyncio.timeout(timeout):
            while not test():
                await asyncio.sleep(0.02)


@pytest_asyncio.fixture
async def guarded(lab: Lab, control_plane: ControlPlane, client_for: ClientFor) -> Guarded:
    await install_crds(lab.client, [crd(Widget), crd(Gauge)])
    planned = kv.Manager("rules")
    build(planned)
    rules = [rule.to_dict() for rule in planned.rules()]
    await client_for("operator", rules=rules)
    config = await kv.ClientConfig.load(
        kubeconfig=await control_plane.service_account_kubeconfig(lab.namespace, "operator")
    )
    # The API server checks RBAC when a watch begins; watches are short here, so that the next watch begins soon.
    settings = ManagerSettings(
        namespace=lab.namespace,
        strict=True,
        informers=InformerSettings(watch_timeout=(1, 2), backoff_start=0.2, backoff_cap=0.5),
    )
    await lab.start(build, config=config, settings=settings)
    await lab.create(widget())
    await lab.until(Widget, "one", kv.is_true("Ready"))
    return Guarded(lab, rules)


def rule_in(text: str) -> list[dict[str, Any]]:
    """Return the rule at the end of an obstacle's text, parsed as YAML."""
    found: list[dict[str, Any]] = yaml.safe_load(text[text.index("- apiGroups:") :])
    return found


def readyz(lab: Lab) -> ProbeResponse:
    return answer("readyz", checks_of(lab.manager.report()), Question(verbose=True))


async def test_forbidden_watch_reports_its_rbac_rule_and_resumes_once_granted(guarded: Guarded) -> None:
    lab = guarded.lab
    await guarded.withdraw("widgets", "list", "watch")
    await guarded.until(lambda: "Forbidden" in str(lab.manager.report().of("widget").problems))
    assert rule_in(guarded.why) == [{"apiGroups": [GROUP], "resources": ["widgets"], "verbs": ["list", "watch"]}]
    # The neighbour's watches are short too: a watch that a busy server ends at once is reported until the next watch has begun.
    await guarded.until(lambda: "[+]controller/gauge ok" in readyz(lab).body)
    ready = readyz(lab)
    assert ready.status == 500
    assert "[-]controller/widget failed" in ready.body
    assert "resources:\n" in ready.body
    await lab.create(Gauge.new("meanwhile"))
    await lab.until(Gauge, "meanwhile", kv.is_true("Ready"))
    await lab.create(widget("unseen"))
    await lab.patch(Widget, "one", {"metadata": {"labels": {"touched": "meanwhile"}}})
    await guarded.restore()
    await lab.until(Widget, "unseen", kv.is_true("Ready"), timeout=30)
    await guarded.until(lambda: lab.manager.report().ready)


@pytest.mark.parametrize(
    ("resource", "verbs", "rule"),
    [
        ("configmaps", ("patch",), {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "patch"]}),
        ("widgets/status", ("patch",), {"apiGroups": [GROUP], "resources": ["widgets/status"], "verbs": ["patch"]}),
    ],
    ids=["of a child", "of the status"],
)
async def test_forbidden_write_reports_its_rbac_rule_and_is_repeated_once_granted(
    guarded: Guarded, resource: str, verbs: tuple[str, ...], rule: dict[str, Any]
) -> None:
    lab = guarded.lab
    await guarded.withdraw(resource, *verbs)
    with structlog.testing.capture_logs() as logs:
        await lab.create(widget("refused"))
        await guarded.until(lambda: bool(guarded.why))
    assert rule_in(guarded.why) == [rule]
    assert "Widget" in guarded.why
    assert next(line["rbac_rule"] for line in logs if line["event"] == "reconcile failed") == rule
    await lab.create(Gauge.new("meanwhile"))
    await lab.until(Gauge, "meanwhile", kv.is_true("Ready"))
    assert lab.manager.report().of("gauge").ready
    await guarded.restore()
    await lab.until(Widget, "refused", kv.is_true("Ready"))
    await guarded.until(lambda: lab.manager.report().ready)


async def test_a_widget_that_is_deleted_takes_its_refusal_along(guarded: Guarded) -> None:
    lab = guarded.lab
    await guarded.withdraw("configmaps", "patch")
    await lab.create(widget("refused"))
    await guarded.until(lambda: bool(guarded.why))
    await lab.delete(Widget, "refused")
    await guarded.until(lambda: lab.manager.report().ready)
