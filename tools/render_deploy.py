"""Render charts/konverge into deploy/: `python tools/render_deploy.py [--check]`; `make generate` renders, `make lint` checks.

With its default values the chart becomes manifests for kubectl. With deploy/cluster-api/values.yaml it becomes the components of an
infrastructure provider of Cluster API, one file for clusterctl. helm renders; it is built from its Go module if the cache has none. Each
template becomes one file, without the two labels that name Helm as the manager, since these manifests are for kubectl.
deploy/rendered.sha256 has the digests of the inputs and of the results, so --check detects a change of either without helm.
"""

import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from go_programs import HELM, go_program

from konverge_testing.failures import ControlPlaneError

ROOT = Path(__file__).resolve().parent.parent
CHART = "charts/konverge"
DIGESTS = "deploy/rendered.sha256"
COMMAND = ("template", "konverge", CHART, "--namespace", "konverge-system", "--skip-tests")
COMPONENTS = "deploy/cluster-api/infrastructure-components.yaml"
"""The file name that clusterctl requires in a release of an infrastructure provider."""
VALUES = "deploy/cluster-api/values.yaml"
COMPONENTS_NAMESPACE = "nstance-system"
COMPONENTS_COMMAND = (
    *("template", "nstance", CHART, "--namespace", COMPONENTS_NAMESPACE, "--skip-tests"),
    *("--values", VALUES),
)
_COMPONENTS_HEAD = f"""\
# Rendered from charts/konverge with {VALUES} by: make generate
---
apiVersion: v1
kind: Namespace
metadata:
  name: {COMPONENTS_NAMESPACE}
  labels:
    cluster.x-k8s.io/provider: infrastructure-nstance
    pod-security.kubernetes.io/enforce: restricted
    pod-security.kubernetes.io/warn: restricted
"""
"""The head has exactly one Namespace: clusterctl takes it as the default."""
_OWN_NAMESPACE = r"\1  fieldRef:\n\1    fieldPath: metadata.namespace\n"
BY_HAND = frozenset({"deploy/kustomization.yaml", "deploy/namespace.yaml"})
HEADER = "# Rendered from charts/konverge with its default values by: make generate\n"

_SOURCE = re.compile(r"^# Source: \S+/templates/(?P<name>\S+)\n", re.MULTILINE)
_HELMS_OWN = re.compile(r"^ +(?:helm\.sh/chart|app\.kubernetes\.io/managed-by): .*\n", re.MULTILINE)


def split(rendered: str) -> dict[str, str]:
    """Return the files under deploy/: path and content, from what `helm template` prints."""
    parts = _SOURCE.split(rendered)
    result: dict[str, list[str]] = {}
    for name, text in zip(parts[1::2], parts[2::2], strict=True):
        document = _HELMS_OWN.sub("", text).strip().removesuffix("---").strip()
        result.setdefault(f"deploy/{name}", []).append(document)
    return {name: HEADER + "---\n" + "\n---\n".join(documents) + "\n" for name, documents in result.items()}


def inputs(root: Path = ROOT) -> list[str]:
    """Return the paths of the chart's files that rendering reads."""
    files = (path for path in (root / CHART).rglob("*") if path.is_file() and path.suffix != ".md")
    chart = (path for path in files if path.parent.name != "values")
    paths = sorted([*chart, root / VALUES])
    return [path.relative_to(root).as_posix() for path in paths]


def digests(names: list[str], read: Callable[[str], bytes]) -> str:
    """Return lines as `sha256sum` prints them."""
    return "".join(f"{hashlib.sha256(read(name)).hexdigest()}  {name}\n" for name in names)


def present_digests(root: Path = ROOT) -> str:
    """Return the digests of the chart and of the manifests as they are now."""
    manifests = {path.relative_to(root).as_posix() for path in (root / "deploy").glob("*.yaml")} - BY_HAND
    return digests([*inputs(root), *sorted({*manifests, COMPONENTS})], lambda name: (root / name).read_bytes())


def is_fresh(root: Path = ROOT) -> bool:
    """Return whether chart and manifests are unchanged since the last rendering; this needs no helm."""
    return (root / DIGESTS).read_text() == present_digests(root)


def components(rendered: str) -> str:
    """Return the components of the provider, from what `helm template` prints."""
    # clusterctl treats an empty default as no default. The tag turns any filled-in value into a string.
    text = rendered.replace('"NSTANCE_WATCH_FILTER"', '!!str ${NSTANCE_WATCH_FILTER:=""}')
    # clusterctl puts another namespace into metadata and subjects, but not into variables.
    text = re.sub(
        rf'^( +)value: "{COMPONENTS_NAMESPACE}"\n', rf"\1valueFrom:\n{_OWN_NAMESPACE}", text, flags=re.MULTILINE
    )
    parts = split(text)
    return _COMPONENTS_HEAD + "".join(text.removeprefix(HEADER) for _, text in sorted(parts.items()))


def render(helm: Path, root: Path = ROOT) -> dict[str, str]:
    """Return the files under deploy/ that the chart renders to."""
    return {**split(_run(helm, COMMAND, root)), COMPONENTS: components(_run(helm, COMPONENTS_COMMAND, root))}


def _run(helm: Path, command: tuple[str, ...], root: Path) -> str:
    done = subprocess.run([helm, *command], cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ControlPlaneError(f"helm {' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def main(arguments: list[str], root: Path = ROOT) -> int:
    """Write the files, or with `--check` only see whether they are fresh; return the exit code."""
    if arguments not in ([], ["--check"]):
        print("usage: python tools/render_deploy.py [--check]", file=sys.stderr)
        return 2
    if arguments:
        if is_fresh(root):
            return 0
        print("deploy/ was rendered from another state of charts/konverge: run make generate", file=sys.stderr)
        return 1
    try:
        result = render(go_program(HELM, os.environ, tell=print), root)
    except ControlPlaneError as error:
        print(f"deploy/ is as it was: {error}", file=sys.stderr)
        return 1
    for name, text in result.items():
        if not (root / name).is_file() or (root / name).read_text() != text:
            (root / name).write_text(text)
            print(name)
    rendered = digests([*inputs(root), *sorted(result)], lambda name: (root / name).read_bytes())
    (root / DIGESTS).write_text(rendered)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
