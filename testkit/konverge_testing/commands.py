"""The commands `konverge control-plane install` and `konverge control-plane run`.

Guarantees: `install` shows which step of how many is under way and for how long; it may be interrupted and continued, and
is quick when there is nothing to do. `run` keeps a control plane up until Ctrl-C and leaves nothing behind. Exit codes: 0
it worked, 1 it did not, 2 wrong usage.

The daemon's command line mounts the group `control_plane`; nothing heavy is imported before a command runs.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from konverge_testing.config import ControlPlaneConfig
    from konverge_testing.control_plane import ControlPlane

__all__ = ["ConsoleProgress", "control_plane"]

_LOOK_SECONDS = 1.0
_QUIET_SECONDS = 30.0


@click.group("control-plane", context_settings={"help_option_names": ["-h", "--help"]})
def control_plane() -> None:
    """A real Kubernetes API server on this machine, for tests and for trying things out.

    etcd, kube-apiserver and kube-controller-manager run as plain processes on loopback: no containers, no nodes.
    """


@control_plane.command()
@click.option(
    "--from",
    "source",
    type=click.Choice(["auto", "envtest", "go"]),
    default="auto",
    show_default=True,
    help="envtest: the official archive, seconds, no kube-controller-manager. go: a build from source, about 6 minutes "
    "on 2 cores and 4 GB of disk for a while. auto: what is missing, the archive first.",
)
def install(source: str) -> None:
    """Put etcd, kube-apiserver, kube-controller-manager and kubectl into the cache.

    The cache is ~/.cache/konverge, or what KONVERGE_CACHE says. An interrupted install continues from the last finished step.
    Programs that KUBEBUILDER_ASSETS or /usr/local/kubebuilder/bin already offer are not installed again.
    KONVERGE_ENVTEST_MIRROR names a mirror of the archive.
    """
    from konverge_testing.binaries import Cache, find_binaries
    from konverge_testing.failures import ControlPlaneError
    from konverge_testing.install import Machine, run_install
    from konverge_testing.install_plan import Source

    machine = Machine(dict(os.environ), Cache.of(os.environ))
    progress = ConsoleProgress(live=sys.stderr.isatty())
    try:
        with machine.locked(progress):
            plan = run_install(Source(source), machine, progress)
        binaries = find_binaries(os.environ)
    except KeyboardInterrupt:
        progress.end("interrupted")
        raise click.ClickException("interrupted; the same command goes on where this one stopped") from None
    except (ControlPlaneError, OSError) as error:
        raise click.ClickException(str(error)) from error
    if plan.lacking:
        click.echo(f"not installed: {plan.why}", err=True)
    click.echo(binaries.describe())


@control_plane.command()
@click.option(
    "--controllers/--no-controllers", default=True, show_default=True, help="Run kube-controller-manager too."
)
@click.option("--audit", is_flag=True, help="Write one JSON line per request, and say where.")
def run(controllers: bool, audit: bool) -> None:
    """Keep a control plane up until Ctrl-C, and print its kubeconfig.

    Its data lives in a temporary directory and goes with it.
    """
    import asyncio

    from konverge_testing.config import ControlPlaneConfig
    from konverge_testing.failures import ControlPlaneError

    config = ControlPlaneConfig(controllers=controllers, audit=audit)
    try:
        asyncio.run(_keep_up(config))
    except KeyboardInterrupt:
        click.echo("stopped; nothing is left behind", err=True)
    except (ControlPlaneError, OSError) as error:
        raise click.ClickException(str(error)) from error


async def _keep_up(config: ControlPlaneConfig) -> None:
    """Hold a plane until the task is cancelled (Ctrl-C does that), or until one of its programs ends."""
    import asyncio

    from konverge_testing.control_plane import ControlPlane
    from konverge_testing.failures import ControlPlaneError

    click.echo("starting ...", err=True)
    async with ControlPlane(config) as plane:
        _announce(plane)
        while not (fallen := plane.fallen()):
            await asyncio.sleep(_LOOK_SECONDS)
        ends = [f"{name} ended: {end}\n{plane.blocking.log_tail(name)}" for name, end in fallen.items()]
        raise ControlPlaneError("\n".join(ends))


def _announce(plane: ControlPlane) -> None:
    click.echo(plane.binaries.describe(), err=True)
    click.echo(f"kubeconfig: {plane.kubeconfig}")
    click.echo(f"API server: {plane.url}")
    if plane.config.audit:
        click.echo(f"requests:   {plane.audit_file}")
    click.echo(f"\n    export KUBECONFIG={plane.kubeconfig}\n")
    if plane.binaries.kubectl is not None:
        click.echo(f"    {plane.binaries.kubectl} get namespaces\n")
    click.echo("Ctrl-C ends it and removes everything.")


class ConsoleProgress:
    """Progress on standard error: one line that is rewritten if it is a terminal, else a line every 30 seconds."""

    def __init__(self, *, live: bool) -> None:
        from konverge import clock

        self._live = live
        self._now = clock.monotonic
        self._line = ""
        self._began = 0.0
        self._said = 0.0

    def begin(self, number: int, total: int, title: str) -> None:
        """Print the step that begins."""
        self._line = f"[{number}/{total}] {title}"
        self._began = self._said = self._now()
        self._show("...", last=not self._live)

    def tick(self, detail: str) -> None:
        """Print the progress of the step, not too often."""
        if self._live:
            self._show(f"... {detail}", last=False)
        elif self._now() - self._said >= _QUIET_SECONDS:
            self._said = self._now()
            self._show(f"... {detail}", last=True)

    def end(self, words: str) -> None:
        """Print the end of the step and its duration; nothing without a step."""
        from konverge_testing.install import elapsed_words

        if self._line:
            self._show(f"{words} ({elapsed_words(self._now() - self._began)})", last=True)
            self._line = ""

    def note(self, line: str) -> None:
        """Print a message between two steps."""
        click.echo(line, err=True)

    def _show(self, words: str, *, last: bool) -> None:
        start = "\r\x1b[K" if self._live else ""
        click.echo(f"{start}{self._line} {words}", err=True, nl=last, color=self._live or None)
