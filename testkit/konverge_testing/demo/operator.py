"""`konverge demo MODULE:BUILD`: a user's operator on an API server of its own, with objects from files.

Guarantees: the operator runs with exactly the rights that `konverge rbac` prints, and its webhooks are called over TLS. The demo is done
when each sample whose kind has a condition Ready reports it as True for its generation.

Caveats: no node exists; a stand-in reports workloads as ready. It takes the place of their controllers, so the API server is in memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click
import yaml

from konverge.client import Client
from konverge.crds.resource import declaration_of
from konverge.daemon import webhooks
from konverge.daemon.crds import apply_all, manifests_of
from konverge.daemon.engine import Operator
from konverge.daemon.options import chosen_build
from konverge.daemon.programs import Build, fill, models_of
from konverge.daemon.rbac import manifests, rules_for
from konverge.daemon.settings import Settings
from konverge.errors import KonvergeError, ServerFailure, UsageError
from konverge.kinds import Kind, kind
from konverge.objects import Object
from konverge.runtime import Manager
from konverge.runtime.admission.settings import WebhookSettings
from konverge_testing.apiserver.catalog import builtin
from konverge_testing.demo.running import HOME, apply, log_of, running
from konverge_testing.demo.stages import Stage
from konverge_testing.lab.ready import Workloads

__all__ = ["Script", "demo_of_operator", "names_for_kubectl", "prepared", "state_of"]

_LOOK_SECONDS: Final = 0.2
_PODS_TAKE: Final = 1.0
_DEFAULT: Final = "default"
_WORKLOADS: Final = (
    *(kind("apps/v1", name, namespaced=True) for name in ("DaemonSet", "Deployment", "StatefulSet")),
    kind("batch/v1", "Job", namespaced=True),
)


@dataclass(frozen=True, slots=True)
class Script:
    """The operator, the definitions and the samples of a demo."""

    operator: Operator
    definitions: list[dict[str, Any]]
    """The definitions of the operator's kinds."""
    waits_for: frozenset[tuple[str, str]]
    """The kinds with a condition Ready, by group and name."""
    samples: list[dict[str, Any]]


def prepared(target: str, paths: Sequence[Path], port: int) -> Script:
    """Import an operator and read the samples; raises UsageError if one of them cannot be read."""
    name, build = chosen_build(target)
    address = f"127.0.0.1:{port}"
    served = f"127.0.0.1:{_free_port()}"
    reached = WebhookSettings(address=served, url=f"https://{served}", secret=f"{HOME}/{name}-webhooks")
    settings = Settings(metrics=address, health=address, debug=address, debug_ui=True, webhooks=reached)
    samples = [document for path in paths for document in _documents(path)]
    return Script(
        operator=Operator(name=name, build=build, settings=settings),
        definitions=manifests_of(build, settings),
        waits_for=asyncio.run(_kinds_with_ready(build, settings)),
        samples=samples,
    )


async def _kinds_with_ready(build: Build | None, settings: Settings) -> frozenset[tuple[str, str]]:
    manager = Manager("demo")
    await fill(manager, build, settings)
    declared = [declaration_of(model) for model in models_of(manager)]
    return frozenset((each.group, each.kind) for each in declared if "Ready" in each.conditions)


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        number: int = listening.getsockname()[1]
        return number


def _documents(path: Path) -> Iterator[dict[str, Any]]:
    files = sorted(file for file in path.rglob("*") if file.suffix in {".yaml", ".yml"}) if path.is_dir() else [path]
    for file in files:
        try:
            documents = list(yaml.safe_load_all(file.read_text(encoding="utf-8")))
        except (OSError, UnicodeError, yaml.YAMLError) as error:
            raise UsageError(f"cannot read {file}: {' '.join(str(error).split())}") from error
        for document in documents:
            if document is None:
                continue
            if not isinstance(document, dict) or not {"apiVersion", "kind", "metadata"} <= document.keys():
                raise UsageError(f"{file}: a sample has apiVersion, kind and metadata")
            yield document


def state_of(object_: Object | None) -> tuple[bool, str]:
    """Return whether an object is ready for its generation, and its condition Ready as a line."""
    ready = object_.find_condition("Ready") if object_ is not None else None
    if object_ is None or ready is None:
        return False, ""
    current = ready.observed_generation in (None, object_.metadata.generation)
    text = f"Ready={ready.status} {ready.reason}{': ' if ready.message else ''}{ready.message}"
    return ready.is_true and current, text


async def demo_of_operator(stage: Stage, admin: Client, script: Script, timeout: float, *, stay: bool) -> bool:
    """Run the demo; returns whether all samples became ready in time."""
    await _prepare(admin, script)
    click.echo(
        f"==> starting {script.operator.name}, and a stand-in that lets its pods become ready (no node runs them)"
    )
    async with Workloads(stage.config, *_WORKLOADS, seconds=_PODS_TAKE), running(stage, script.operator) as addresses:
        problem = "no sample is ready"
        shown: dict[str, str] = {}
        try:
            async with asyncio.timeout(timeout):
                samples = await _apply_samples(admin, script)
                while not await _look(admin, samples, shown):
                    await asyncio.sleep(_LOOK_SECONDS)
                problem = ""
        except TimeoutError:
            problem = f"not all samples are ready after {timeout:g} s"
        except KonvergeError as error:
            problem = str(error)
        if problem:
            click.echo(f"\n{problem}. The log of {script.operator.name} ends:", err=True)
            click.echo("\n".join(log_of(stage).read_text(encoding="utf-8").splitlines()[-30:]), err=True)
            return False
        _print_result(stage, script, addresses["debug"], samples)
        if stay:
            click.echo("Ctrl-C ends it and removes everything.\n")
        while stay:
            await asyncio.sleep(_LOOK_SECONDS)
            with contextlib.suppress(KonvergeError):  # the user may delete a definition
                await _look(admin, samples, shown)
        return True


async def _prepare(admin: Client, script: Script) -> None:
    operator = script.operator
    click.echo("==> applying CustomResourceDefinitions, RBAC and the registration of webhooks")
    await apply_all(admin, script.definitions)
    await apply(admin, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HOME}})
    rules = await rules_for(operator.build, operator.settings, operator.name)
    registered = await webhooks.manifests_of(operator.build, operator.settings, operator.name)
    for document in (*manifests(operator.name, rules, "", f"{HOME}/{operator.name}"), *registered):
        await apply(admin, document)


_Sample = tuple[Kind[Object], str, str, bool]
"""The kind of a sample, its namespace and name, and whether it has to become ready."""


async def _apply_samples(admin: Client, script: Script) -> list[_Sample]:
    click.echo("==> applying the samples\n")
    applied: list[_Sample] = []
    for document in script.samples:
        what = kind(document["apiVersion"], document["kind"])
        name, namespace = document["metadata"]["name"], document["metadata"].get("namespace", _DEFAULT)
        if not (await admin.resource(what)).namespaced:
            namespace = ""
        placed = {**document, "metadata": {**document["metadata"], **({"namespace": namespace} if namespace else {})}}
        while True:
            try:
                await admin.apply(what, placed)
                break
            except ServerFailure:  # a webhook of the operator does not serve yet
                await asyncio.sleep(_LOOK_SECONDS)
        applied.append((what, namespace, name, (what.group, what.kind) in script.waits_for))
    return applied


async def _look(admin: Client, samples: Sequence[_Sample], shown: dict[str, str]) -> bool:
    """Print each sample whose condition changed; returns whether all of them are ready."""
    done = True
    for what, namespace, name, waits in samples:
        if waits:
            ready, text = state_of(await admin.find(what, name, namespace))
            title = f"{what.kind.lower()}/{name}"
            if text and shown.get(title) != text:
                click.echo(f"{title:<24} {text}")
                shown[title] = text
            done = done and ready
    return done


def names_for_kubectl(definitions: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the plural of each kind, with the group if kubectl would take the plural for a built-in kind or for another of these kinds."""
    specs = [each["spec"] for each in definitions]
    taken = Counter(each["names"]["plural"] for each in specs)
    taken.update(name for each in builtin() for name in (each.plural, each.singular, *each.short_names))
    plurals = [(each["names"]["plural"], each["group"]) for each in specs]
    return [plural if taken[plural] == 1 else f"{plural}.{group}" for plural, group in plurals]


def _print_result(stage: Stage, script: Script, debug: str, samples: Sequence[_Sample]) -> None:
    click.echo(f"\nAll samples are ready.\n\n  export KUBECONFIG={stage.kubeconfig}")
    if stage.kubectl:
        click.echo(f"  {stage.kubectl} get {','.join(names_for_kubectl(script.definitions))}")
    for what, namespace, name, waits in samples[:1]:
        if waits:
            place = f" -n {namespace}" if namespace else ""
            click.echo(f"  konverge explain {what.kind.lower()}/{name}{place} --url {debug}")
    click.echo()
    for title, place in (("page", f"{debug}/debug/ui"), ("debug", f"{debug}/debug"), ("log", str(log_of(stage)))):
        click.echo(f"  {title:<10} {place}")
    click.echo()
