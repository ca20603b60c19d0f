"""`konverge apiserver run`: the API server in memory as a program, for clients of any language.

Guarantees: one line on standard output reports that the server is ready, with its URL and the kubeconfig; before that line the kubeconfig
is complete and the given definitions are served. SIGTERM and SIGINT end the server with exit code 0, and the kubeconfig is removed. A file
that this command did not write is never replaced.

Caveats: one process holds all objects in memory, and they are lost when it ends. Loopback only.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from konverge.errors import UsageError

if TYPE_CHECKING:
    from konverge_testing.apiserver.http import HttpShell

__all__ = ["apiserver", "definitions_of"]

READY: Final = "ready"
_NAME: Final = "konverge-apiserver"
_CRD: Final = "CustomResourceDefinition"
_SUFFIXES: Final = frozenset({".yaml", ".yml", ".json"})


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def apiserver() -> None:
    """A Kubernetes API server in memory, for tests in any language.

    It starts in about a second and needs no etcd and no kube-apiserver. Namespaces, garbage collection, quotas and CRDs behave as in a
    cluster; no controller makes Pods from Deployments.
    """


# Not a docstring, because click wants the character \b before lines that stay as they are.
_RUN: Final = """Serve the API over HTTPS on loopback until Ctrl-C or SIGTERM.

\b
    konverge apiserver run --kubeconfig /tmp/kubeconfig &
    KUBECONFIG=/tmp/kubeconfig kubectl get namespaces

The line that begins with "ready" on standard output says that clients may begin. For controller-runtime's envtest set
USE_EXISTING_CLUSTER=true as well.
"""


@apiserver.command(help=_RUN)
@click.option(
    "--kubeconfig",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="Write the administrator's kubeconfig to this new file; it is removed at the end.",
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, metavar="PORT", help="Listen here; without, on a free port."
)
@click.option(
    "--crds",
    "definitions",
    type=click.Path(exists=True, path_type=Path),
    multiple=True,
    help="Install the CustomResourceDefinitions of a file or folder (YAML or JSON) first; may be repeated.",
)
@click.option(
    "--token",
    default="",
    metavar="TOKEN",
    help="Accept this bearer token as the administrator's and write it into the kubeconfig, in place of a client certificate.",
)
@click.option("--rbac/--no-rbac", default=True, show_default=True, help="Without RBAC every user may do everything.")
@click.option(
    "--controllers/--no-controllers",
    default=True,
    show_default=True,
    help="Without them, as in envtest: nothing is garbage collected, and a deleted namespace stays Terminating.",
)
def run(kubeconfig: Path, port: int, definitions: tuple[Path, ...], token: str, rbac: bool, controllers: bool) -> None:
    """Serve the API over HTTPS on loopback until Ctrl-C or SIGTERM."""
    path = kubeconfig.absolute()
    if path.exists():
        raise UsageError(_exists(path))
    options = {"rbac": rbac} if controllers else {"rbac": rbac, "controllers": False, "service_accounts": "off"}
    asyncio.run(_serve(path, port, definitions_of(definitions), token, options))


async def _serve(
    kubeconfig: Path, port: int, definitions: list[dict[str, Any]], token: str, options: Mapping[str, Any]
) -> None:
    from konverge.client import Client
    from konverge.daemon.crds import apply_all
    from konverge_testing.apiserver.requests import ADMIN
    from konverge_testing.kubeconfigs import write_kubeconfig
    from konverge_testing.memory_server import ApiServer

    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    tokens = {token: ADMIN} if token else {}
    async with (
        ApiServer(tokens=tokens, **options) as server,
        _listening(server.http(tls=True, port=port), port) as shell,
    ):
        async with Client(server.config(), name=_NAME) as client:
            await apply_all(client, definitions)
        with _written(kubeconfig, lambda path: write_kubeconfig(path, shell, token=token)):
            click.echo(f"{READY}: {shell.url}, kubeconfig {kubeconfig}")
            await stop.wait()
    click.echo(f"stopped; {kubeconfig} is removed", err=True)


@contextlib.asynccontextmanager
async def _listening(shell: HttpShell, port: int) -> AsyncIterator[HttpShell]:
    async with contextlib.AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(shell)
        except OSError as error:
            why = os.strerror(error.errno) if error.errno else str(error)
            raise UsageError(f"cannot listen on port {port}: {why}; --port=0 takes a free port") from error
        yield shell


@contextlib.contextmanager
def _written(path: Path, write: Callable[[Path], object]) -> Iterator[None]:
    """Put a file in place as a whole, and remove it afterwards if it is still the same file."""
    try:
        with tempfile.TemporaryDirectory(prefix=".konverge-", dir=path.parent) as folder:
            partial = Path(folder, path.name)
            write(partial)
            path.hardlink_to(partial)
    except FileExistsError:
        raise UsageError(_exists(path)) from None
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error
    with path.open(
        "rb"
    ) as own:  # held open: otherwise the file of another program may get the number of the deleted inode
        try:
            yield
        finally:
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(path.stat(), os.fstat(own.fileno())):
                    path.unlink()


def _exists(path: Path) -> str:
    return f"{path} exists, and this command replaces no file: name another one with --kubeconfig, or remove it"


def definitions_of(paths: Sequence[Path]) -> list[dict[str, Any]]:
    """Return the definitions in files and folders, in the order of the paths; other documents are passed over.

    Raises UsageError if a file cannot be read, or if a path has no definition.
    """
    results: list[dict[str, Any]] = []
    for path in paths:
        before = len(results)
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if not path.is_dir() or file.suffix in _SUFFIXES:
                results += _definitions_in(file)
        if len(results) == before:
            raise UsageError(f"{path} has no {_CRD}: --crds takes files and folders of YAML or JSON that have one")
    return results


def _definitions_in(file: Path) -> Iterator[dict[str, Any]]:
    import yaml

    try:
        documents = list(yaml.safe_load_all(file.read_text(encoding="utf-8")))
    except (OSError, UnicodeError, yaml.YAMLError) as error:
        raise UsageError(f"cannot read {file}: {' '.join(str(error).split())}") from error
    for document in documents:
        items = (
            document.get("items", ()) if isinstance(document, dict) and document.get("kind") == "List" else [document]
        )
        yield from (item for item in items if isinstance(item, dict) and item.get("kind") == _CRD)
