"""Write the generated files of charts/konverge: `python tools/chart_files.py [--check]`; `make generate` writes, `make lint` checks.

Sources: the controllers of each family for definitions, rules and webhooks; deploy/ for alerts and dashboards; values.yaml for the table of
values in README.md; the settings of the daemon for the schema of `settings`. With --check nothing is written, and the exit code is 1 if a
file differs.
"""

import asyncio
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from konverge.charts import OperatorChart, generated_files
from konverge.daemon.chart import daemon_chart_data
from konverge.daemon.families import daemon_settings, discover

ROOT = Path(__file__).resolve().parent.parent


def chart(root: Path = ROOT) -> OperatorChart:
    """Return our own chart, described as Chart.yaml does."""
    message = yaml.safe_load((root / "charts/konverge/Chart.yaml").read_text())
    version = tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]
    own = tuple(hosted for hosted in discover() if hosted.distribution.startswith("konverge "))
    return asyncio.run(daemon_chart_data(daemon_settings(own), message["version"], version, message["description"]))


def expected(root: Path = ROOT) -> dict[str, str]:
    """Return the generated files: path in the chart, and content."""
    folder = root / "charts/konverge"
    paths = (folder / "values.yaml", folder / "values.schema.json", *folder.glob("values/*.yaml"))
    pieces = {path.relative_to(folder).as_posix(): path.read_text() for path in paths}
    manifest = chart(root)
    result = generated_files(manifest, pieces)
    for part in ("daemon", *(part.name for part in manifest.parts)):
        for source, name in ((f"alerts/{part}.yaml", "alerts.yaml"), (f"dashboards/{part}.json", "dashboard.json")):
            if (root / "deploy" / source).is_file():
                result[f"files/{part}/{name}"] = (root / "deploy" / source).read_text()
    return result


def outdated(wanted: Mapping[str, str], folder: Path) -> list[str]:
    """Return the names of generated files that are missing or differ, and of files below files/ that nothing generates."""
    present = {path.relative_to(folder).as_posix() for path in folder.glob("files/**/*") if path.is_file()}
    return sorted(
        name
        for name in {*wanted, *present}
        if name not in wanted or not (folder / name).is_file() or (folder / name).read_text() != wanted[name]
    )


def main(arguments: Sequence[str], root: Path = ROOT) -> int:
    """Write the files, or with `--check` only compare them; return the exit code."""
    if arguments not in ([], ["--check"]):
        print("usage: python tools/chart_files.py [--check]", file=sys.stderr)
        return 2
    folder = root / "charts/konverge"
    wanted = expected(root)
    names = outdated(wanted, folder)
    for name in names:
        path = folder / name
        if arguments:
            print(f"charts/konverge/{name} is not what the sources say; run: make generate", file=sys.stderr)
        elif name in wanted:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(wanted[name])
            print(f"charts/konverge/{name}")
        else:
            path.unlink()
    return 1 if arguments and names else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
