"""clusterctl with a configuration for our provider, whose release is in a folder. `tools/go_programs.py clusterctl` builds it."""

import asyncio
import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import yaml

COMPONENTS = Path(__file__).parents[2] / "deploy" / "cluster-api"
RELEASE = "v" + ".".join([*version("konverge").split(".")[:2], "0"])
PROVIDER = "infrastructure-nstance"


class Clusterctl:
    """The program with a configuration that names our provider."""

    def __init__(self, program: Path, folder: Path) -> None:
        self._program = program
        self._folder = folder
        files = {name: (COMPONENTS / name).read_text() for name in ("infrastructure-components.yaml", "metadata.yaml")}
        url = self._release(f"{PROVIDER}/{RELEASE}", files)
        self.config: dict[str, Any] = {"providers": [{"name": "nstance", "type": "InfrastructureProvider", "url": url}]}

    def add_core(self, components: str, metadata: Path, release: str) -> None:
        """Name a release of Cluster API itself in the configuration."""
        files = {"core-components.yaml": components, "metadata.yaml": metadata.read_text()}
        url = self._release(f"cluster-api/{release}", files)
        self.config["providers"].append({"name": "cluster-api", "type": "CoreProvider", "url": url})

    def _release(self, name: str, files: dict[str, str]) -> str:
        folder = self._folder / "repository" / name
        folder.mkdir(parents=True)
        for file, text in files.items():
            (folder / file).write_text(text)
        return str(folder / next(iter(files)))

    async def generate(self, *words: str, **variables: str) -> str:
        """Return what `clusterctl generate provider` prints, with these variables in its environment."""
        return await self.run("generate", "provider", "--infrastructure", f"nstance:{RELEASE}", *words, **variables)

    async def init(self, kubeconfig: Path, release: str, **variables: str) -> None:
        """Install Cluster API and our provider in a cluster."""
        providers = ("--core", f"cluster-api:{release}", "--infrastructure", f"nstance:{RELEASE}")
        await self.run(
            *("init", "--kubeconfig", str(kubeconfig), *providers, "--bootstrap", "-", "--control-plane", "-"),
            **variables,
        )

    async def move(self, source: Path, target: Path, namespace: str) -> None:
        """Move the Clusters of a namespace, with all that belongs to them, to another cluster."""
        await self.run("move", "--kubeconfig", str(source), "--to-kubeconfig", str(target), "-n", namespace)

    async def run(self, *words: str, **variables: str) -> str:
        """Run the program, and return its output."""
        config = self._folder / "clusterctl.yaml"
        config.write_text(json.dumps(self.config))
        process = await asyncio.create_subprocess_exec(
            *(str(self._program), *words, "--config", str(config)),
            env={"HOME": str(self._folder), "CLUSTERCTL_DISABLE_VERSIONCHECK": "true", **variables},
            stdin=asyncio.subprocess.DEVNULL,
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
