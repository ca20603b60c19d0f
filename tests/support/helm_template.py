"""`helm template` with values, and its output as data."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from click.testing import CliRunner

from konverge.daemon.main import program

CHART = Path(__file__).parents[2] / "charts" / "konverge"
NAMESPACE = "konverge-system"
_SECONDS = 90
_OF_THE_CLUSTER = {
    *("ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition"),
    *("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"),
}

Right = tuple[str, str, str, tuple[str, ...], str]
"""Namespace ("" for all), group, resource, names, verb."""


def konverge(*words: str) -> str:
    """Return what the command line prints; the command has to succeed."""
    result = CliRunner().invoke(program, list(words), prog_name="konverge")
    assert result.exit_code == 0, result.output
    return result.stdout


def deep(path: str, value: Any) -> dict[str, Any]:
    """Return a value below its path, as a values file has it."""
    for part in reversed(path.split(".")):
        value = {part: value}
    return value  # type: ignore[no-any-return]  # a path has at least one part


def merged(*values: dict[str, Any]) -> dict[str, Any]:
    """Return values files as helm merges them."""
    found: dict[str, Any] = {}
    for one in values:
        for key, value in one.items():
            below = found.get(key)
            found[key] = merged(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return found


@dataclass(frozen=True)
class Rendered:
    """The objects of a chart."""

    objects: tuple[dict[str, Any], ...]

    def all(self, kind: str) -> list[dict[str, Any]]:
        return [one for one in self.objects if one["kind"] == kind]

    def one(self, kind: str, name: str | None = None) -> dict[str, Any]:
        [found] = [one for one in self.all(kind) if name in (None, one["metadata"]["name"])]
        return found

    @property
    def kinds(self) -> set[str]:
        return {one["kind"] for one in self.objects}

    @property
    def pod(self) -> dict[str, Any]:
        found: dict[str, Any] = self.one("StatefulSet" if self.all("StatefulSet") else "Deployment")["spec"][
            "template"
        ]["spec"]
        return found

    @property
    def container(self) -> dict[str, Any]:
        [found] = self.pod["containers"]
        assert isinstance(found, dict)
        return found

    @property
    def environment(self) -> dict[str, str]:
        return {one["name"]: one["value"] for one in self.container["env"]}

    @property
    def account(self) -> str:
        """The ServiceAccount of the daemon."""
        return str(self.pod["serviceAccountName"])

    @property
    def rights(self) -> set[Right]:
        """The rights of the daemon's ServiceAccount, from the roles bound to it."""
        bound = [
            one
            for one in self.objects
            if one["kind"] in ("RoleBinding", "ClusterRoleBinding") and one["subjects"][0]["name"] == self.account
        ]
        names = {(one["roleRef"]["kind"], one["metadata"].get("namespace"), one["roleRef"]["name"]) for one in bound}
        return {
            right
            for role in self.objects
            if (role["kind"], role["metadata"].get("namespace"), role["metadata"]["name"]) in names
            for right in rights_of(role)
        }


def rights_of(role: dict[str, Any]) -> set[Right]:
    return {
        (role["metadata"].get("namespace", ""), group, resource, tuple(rule.get("resourceNames", ())), verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


@cache
def _run(helm: Path, chart: Path, values: str) -> tuple[int, str, str]:
    words = (helm, "template", "konverge", chart, "--namespace", NAMESPACE, "--values", "-")
    done = subprocess.run(
        words, input=values, capture_output=True, text=True, check=False, timeout=_SECONDS, env={"HOME": "/nonexistent"}
    )
    return done.returncode, done.stdout, done.stderr


@cache
def _loaded(text: str) -> Rendered:
    return Rendered(tuple(one for one in yaml.load_all(text, Loader=yaml.CSafeLoader) if one))


@dataclass(frozen=True)
class Template:
    """Renders a chart with values. The results are shared, so tests must not change them."""

    helm: Path
    chart: Path = CHART

    def __call__(self, values: dict[str, Any] | None = None) -> Rendered:
        code, out, complaint = _run(self.helm, self.chart, json.dumps(values or {}))
        assert code == 0, complaint
        return _loaded(out)

    def refused(self, values: dict[str, Any]) -> str:
        code, _, complaint = _run(self.helm, self.chart, json.dumps(values))
        assert code != 0, "it was rendered"
        return complaint


def check_names(rendered: Rendered, namespace: str = NAMESPACE) -> None:
    """Object names are unique. Exactly the namespaced objects have a namespace: the release's, except for Roles."""
    seen = set()
    for one in rendered.objects:
        metadata = one["metadata"]
        key = (one["kind"], metadata.get("namespace"), metadata["name"])
        assert key not in seen
        seen.add(key)
        if one["kind"] in _OF_THE_CLUSTER:
            assert "namespace" not in metadata, key
        elif one["kind"] not in ("Role", "RoleBinding"):
            assert metadata["namespace"] == namespace, key
        assert metadata["labels"]["app.kubernetes.io/instance"] == "konverge", key
