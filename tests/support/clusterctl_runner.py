"""clusterctl with a configuration that names our provider, whose release lies in a folder. `tools/go_programs.py clusterctl` builds it."""

from __future__ import annotations

import asyncio
import json
import shutil
from importlib.metadata import version
from pathlib import Path
from typing import Any

import yaml

__all__ = ["PROVIDER", "Clusterctl", "container_of"]

COMPONENTS = Path(__file__).parents[2] / "deploy" / "cluster-api"
RELEASE = "v" + ".".join([*version("konverge").split(".")[:2], "0"])
PROVIDER = "infrastructure-nstance"


class Clusterctl:
    """The program with a configuration that names our provider."""

    def __init__(self, program: Path, folder: Path) -> None:
        self._program = program
        self._folder = folder
        release = folder / "repository" / PROVIDER / RELEASE
        release.mkdir(parents=True)
        for name in ("infrastructure-components.yaml", "metadata.yaml"):
            shutil.copy(COMPONENTS / name, release / name)
        url = str(release / "infrastructure-components.yaml")
        self.config: dict[str, Any] = {"providers": [{"name": "nstance", "type": "InfrastructureProvider", "url": url}]}

    async def generate(self, *words: str, **variables: str) -> str:
        """Return what `clusterctl generate provider` prints, with these variables in its environment."""
        config = self._folder / "clusterctl.yaml"
        config.write_text(json.dumps(self.config))
        process = await asyncio.create_subprocess_exec(
            *(str(self._program), "generate", "provider", "--infrastructure", f"nstance:{RELEASE}"),
            *("--config", str(config), *words),
            env={"HOME": str(self._folder), "CLUSTERCTL_DISABLE_VERSIONCHECK": "true", **variables},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        said, errors = await process.communicate()
        assert process.returncode == 0, errors.decode()
        return said.decode()


def container_of(text: str) -> dict[str, Any]:
    """Return the container of the provider."""
    [deployment] = [one for one in yaml.safe_load_all(text) if one["kind"] == "Deployment"]
    [found] = deployment["spec"]["template"]["spec"]["containers"]
    assert isinstance(found, dict)
    return found
