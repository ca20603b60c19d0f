"""The command `konverge demo`: runs an API server, the daemon and samples on this machine.

Guarantees: the daemon runs in this process with exactly the rights that `konverge rbac` prints. A table shows the samples until all have
their expected conditions; then the kubeconfig and the URLs are printed, and the demo runs until Ctrl-C or SIGTERM. With CI=true it ends
there: exit code 0 if all samples converged, 1 after the timeout. All files are removed at the end.

Caveats: neither Helm nor an engine of Operations runs: stand-ins replace Flux, Velero, Argo Workflows, VolSync, the kubelet and the control
plane of pull mode, and the output names them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import click
import yaml

from konverge.client import Client
from konverge.daemon import engine
from konverge.daemon.crds import apply_all, manifests_of
from konverge.daemon.families import DaemonSettings, installed_settings
from konverge.daemon.options import target_argument
from konverge.daemon.programs import NAME
from konverge.daemon.rbac import manifests, rules_for
from konverge.errors import KonvergeError
from konverge.kinds import kind
from konverge.reconcilers.apps import Settings as AppsSettings
from konverge.reconcilers.clusters import Settings as ClusterSettings
from konverge.reconcilers.pools import PoolSettings
from konverge_testing.demo.engines import engine_crds, engines
from konverge_testing.demo.running import HOME, apply, log_of, running
from konverge_testing.demo.samples import (
    EXPECTED_BY_SECTION,
    INSTANCES,
    NAMESPACE,
    POOLS,
    cluster_samples,
    hint,
    operation_samples,
    pool_samples,
    registration_token,
    samples,
)
from konverge_testing.demo.stages import STAGES, Stage
from konverge_testing.demo.table import (
    Row,
    Table,
    cluster_row,
    converged,
    nextcloud_row,
    operation_row,
    pool_row,
    row_of,
)
from konverge_testing.flux import HelmController, flux_crds

__all__ = ["demo"]

_LOOK_SECONDS = 0.2
_PAUSE = 0.1
"""Seconds between two writes of the stand-in, so that the table shows intermediate states."""
_INSTANCE = kind("apps.vworkspace.io/v1alpha1", "ApplicationInstance")
_OPERATION = kind("ops.vworkspace.io/v1alpha1", "Operation")
_CLUSTER = kind("ops.vworkspace.io/v1alpha1", "Cluster")
_POOL = kind("k8s.bnerd.com/v1alpha1", "NextcloudPool", namespaced=False, plural="nextcloudpools")
_NEXTCLOUD = kind("k8s.bnerd.com/v1alpha1", "Nextcloud", namespaced=True, plural="nextclouds")
_NAMESPACE = kind("v1", "Namespace", namespaced=False, plural="namespaces")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@target_argument
@click.option(
    "--samples",
    "sample_paths",
    type=click.Path(exists=True, path_type=Path),
    multiple=True,
    help="With MODULE:BUILD: a file or folder of objects (YAML) to apply; may be repeated.",
)
@click.option(
    "--timeout", default=120.0, show_default=True, metavar="SECONDS", help="How long the samples may take to converge."
)
@click.option(
    "--port", default=0, metavar="PORT", help="Serve metrics, health and debug here; without, on a free port."
)
@click.option(
    "--control-plane",
    type=click.Choice(tuple(STAGES)),
    default="memory",
    show_default=True,
    help="The API server: in this process, or etcd and kube-apiserver.",
)
@click.option(
    "--replicas",
    default=1,
    show_default=True,
    metavar="NUMBER",
    type=click.IntRange(1, 9),
    help="More than one: replicas share WorkspaceClaims instead; one is killed, one is stopped.",
)
@click.option(
    "--machines",
    "of_machines",
    is_flag=True,
    help="A pool of machines over three shards instead: it is scaled, and a Node is drained.",
)
def demo(
    target: str | None,
    sample_paths: tuple[Path, ...],
    timeout: float,
    port: int,
    control_plane: str,
    replicas: int,
    of_machines: bool,
) -> None:
    """Run an API server, the daemon and samples on this machine, until Ctrl-C.

    With MODULE:BUILD an operator of yours runs in place of the daemon, with the objects of --samples. No node runs its pods: a stand-in
    reports Deployments, StatefulSets, DaemonSets and Jobs as ready.

    The API server is part of this process. With --control-plane=real it is kube-apiserver, whose programs come from the cache;
    `konverge control-plane install` puts them there. With CI=true the demo ends when all samples have converged (exit code 0) or have
    not in time (1).
    """
    stay = os.environ.get("CI", "").lower() not in {"1", "true", "yes"}
    try:
        enter = STAGES[control_plane]
        if target is not None:
            if of_machines or replicas > 1:
                raise click.UsageError("--machines and --replicas show families of the daemon: leave MODULE:BUILD out")
            if control_plane != "memory":
                raise click.UsageError(
                    "with MODULE:BUILD the API server is in memory, because no node of a real one runs the pods"
                )
            playing = _of_operator(enter, target, sample_paths, timeout, port, stay=stay)
        elif sample_paths:
            raise click.UsageError("--samples goes with MODULE:BUILD; the daemon has samples of its own")
        elif of_machines:
            playing = _of_machines(enter, timeout, stay=stay)
        elif replicas > 1:
            playing = _of_replicas(enter, replicas, timeout, stay=stay)
        else:
            playing = _demo(enter, timeout, f"127.0.0.1:{port}", stay=stay)
        done = asyncio.run(_until_sigterm(playing))
    except (KeyboardInterrupt, asyncio.CancelledError):
        click.echo("\nstopped; nothing is left behind")
        return
    if not done:
        raise SystemExit(1)


async def _until_sigterm(playing: Coroutine[Any, Any, bool]) -> bool:
    """Run the demo until SIGTERM, which ends it as Ctrl-C does, so that the folder with the administrator's kubeconfig is removed."""
    loop, task = asyncio.get_running_loop(), asyncio.ensure_future(playing)
    loop.add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        return await task
    finally:
        loop.remove_signal_handler(signal.SIGTERM)


def _of_operator(
    enter: Callable[[], AbstractAsyncContextManager[Stage]],
    target: str,
    paths: tuple[Path, ...],
    timeout: float,
    port: int,
    *,
    stay: bool,
) -> Coroutine[Any, Any, bool]:
    """Return the demo of a user's operator; what is read and imported is read before a loop runs."""
    from konverge_testing.demo.operator import demo_of_operator, prepared

    script = prepared(target, paths, port)

    async def play() -> bool:
        async with enter() as stage, Client(stage.config, name="konverge-demo") as admin:
            return await demo_of_operator(stage, admin, script, timeout, stay=stay)

    return play()


async def _of_replicas(
    enter: Callable[[], AbstractAsyncContextManager[Stage]], replicas: int, timeout: float, *, stay: bool
) -> bool:
    from konverge_testing.demo.replicas import demo_of_replicas

    async with enter() as stage, Client(stage.config, name="konverge-demo") as admin:
        return await demo_of_replicas(stage, admin, replicas, timeout, stay=stay)


async def _of_machines(enter: Callable[[], AbstractAsyncContextManager[Stage]], timeout: float, *, stay: bool) -> bool:
    from konverge_testing.demo.machines import demo_of_machines

    async with enter() as stage, Client(stage.config, name="konverge-demo") as admin:
        return await demo_of_machines(stage, admin, timeout, stay=stay)


async def _demo(
    enter: Callable[[], AbstractAsyncContextManager[Stage]], timeout: float, address: str, *, stay: bool
) -> bool:
    async with enter() as stage, Client(stage.config, name="konverge-demo") as admin:
        await _prepare(admin)
        click.echo("==> starting a stand-in for Flux (no Helm runs in this demo) and the daemon")
        click.echo(
            "    and stand-ins for Velero, Argo Workflows, VolSync, pods and a control plane (nothing is backed up or run)"
        )
        async with (
            HelmController(stage.config, pause=_PAUSE),
            engines(stage.config, registration_token(), runs_jobs=stage.runs_jobs) as plane,
            running(stage, _operator(address)) as addresses,
        ):
            await _apply_samples(admin, plane)
            done = await _watch(admin, timeout)
            _print_result(stage, addresses, done)
            if done and stay:
                await _stay(admin)
            return done


async def _prepare(admin: Client) -> None:
    """Apply the CRDs of the families, of Flux and of the engines, and the RBAC of the daemon."""
    settings = _settings()
    click.echo(
        "==> applying CustomResourceDefinitions (ours, and minimal ones of Flux's and the engines' kinds) and RBAC"
    )
    await apply_all(admin, [*manifests_of(None, settings), *flux_crds(), *engine_crds()])
    for name in (HOME, NAMESPACE):
        await admin.apply(_NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    rules = await rules_for(None, settings)
    for document in manifests(NAME, rules, "", f"{HOME}/{NAME}"):
        await apply(admin, document)


def _settings(**more: Any) -> DaemonSettings:
    groups: dict[str, Any] = {
        "apps": AppsSettings(namespace=HOME),
        "clusters": ClusterSettings(namespace=HOME),
        "pools": PoolSettings(instance_namespace=NAMESPACE),
    }
    return installed_settings()(**{**groups, **more})


def _operator(address: str) -> engine.Operator:
    settings = _settings(metrics=address, health=address, debug=address, debug_ui=True)
    return engine.Operator(name=NAME, build=None, settings=settings)


async def _apply_samples(admin: Client, plane: str) -> None:
    click.echo(f"==> applying samples to namespace {NAMESPACE}\n")
    for document in (*samples(), *operation_samples(), *cluster_samples(plane), *pool_samples(claims=False)):
        await apply(admin, document)
    for hosted in _settings().families:
        if (file := hosted.family.samples) is not None:
            click.echo(f"==> applying samples of {hosted}\n")
            for document in yaml.safe_load_all(file.read_text(encoding="utf-8")):
                await apply(admin, document)


async def _rows(admin: Client) -> list[Row]:
    rows: list[Row] = []
    for what, namespace, row in (
        (_INSTANCE, NAMESPACE, row_of),
        (_OPERATION, NAMESPACE, operation_row),
        (_CLUSTER, "", cluster_row),
        (_POOL, "", pool_row),
        (_NEXTCLOUD, NAMESPACE, nextcloud_row),
    ):
        listing = await admin.list(what, namespace) if namespace else await admin.list(what)
        rows += map(row, listing.items)
    return sorted(rows, key=_order)


def _order(row: Row) -> tuple[int, int, str]:
    names = list(EXPECTED_BY_SECTION[row.section])
    place = names.index(row.name) if row.name in names else len(names)
    return list(EXPECTED_BY_SECTION).index(row.section), place, row.name


async def _watch(admin: Client, timeout: float) -> bool:
    """Show the table until all samples have their expected ends; False after the timeout. Claims begin when the pool is full."""
    claims = pool_samples(claims=True)
    with Table() as table:
        try:
            async with asyncio.timeout(timeout):
                while True:
                    rows = await _rows(admin)
                    table.show(rows)
                    if all(converged(rows, expected, section) for section, expected in EXPECTED_BY_SECTION.items()):
                        return True
                    if claims and converged(rows, EXPECTED_BY_SECTION[POOLS], POOLS):
                        for claim in claims:
                            await apply(admin, claim)
                        claims = []
                    await asyncio.sleep(_LOOK_SECONDS)
        except TimeoutError:
            return False


def _print_result(stage: Stage, addresses: Mapping[str, str], done: bool) -> None:
    if not done:
        wanted = ", ".join(
            f"{name}: {'Ready=' if section == INSTANCES else ''}{end.status} {end.reason}"
            for section, expected in EXPECTED_BY_SECTION.items()
            for name, end in expected.items()
        )
        click.echo(f"\nnot all samples converged in time; expected {wanted}. The daemon's log ends:", err=True)
        click.echo("\n".join(log_of(stage).read_text(encoding="utf-8").splitlines()[-30:]), err=True)
        return
    debug = addresses["debug"]
    click.echo(f"\nAll samples converged.\n\n  export KUBECONFIG={stage.kubeconfig}")
    if stage.kubectl:
        click.echo(f"  {stage.kubectl} -n {NAMESPACE} get appinst,operations,helmreleases,clusters,nextclouds")
    click.echo(f"  konverge explain appinst/shop -n {NAMESPACE} --url {debug}\n")
    for title, url in (
        ("metrics", f"{addresses['metrics']}/metrics"),
        ("readiness", f"{addresses['health']}/readyz?verbose"),
        ("page", f"{debug}/debug/ui"),
        ("debug", f"{debug}/debug"),
        ("log", str(log_of(stage))),
    ):
        click.echo(f"  {title:<10} {url}")
    click.echo(f"\n  {hint(stage.kubectl)}\n")


async def _stay(admin: Client) -> None:
    """Show the table until Ctrl-C."""
    click.echo("Ctrl-C ends it and removes everything.\n")
    with Table() as table:
        while True:
            # The table survives a restart of the API server.
            with contextlib.suppress(KonvergeError):
                table.show(await _rows(admin))
            await asyncio.sleep(_LOOK_SECONDS)
