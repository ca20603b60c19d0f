"""The shell of the stand-in for Flux: its requests to the API server. Its writes are compared with recordings elsewhere."""

from collections import Counter
from typing import Any

from konverge.keys import Key
from konverge.objects import Object
from konverge_testing import Lab, install_crds
from konverge_testing.flux import KINDS, HelmController, flux_crds

REPOSITORY = KINDS["HelmRepository"]


def ready(found: Object) -> bool:
    condition = found.find_condition("Ready")
    settled = found.get("status", "observedGeneration") == found.metadata.generation
    return settled and condition is not None and condition.is_true


def asked(lab: Lab) -> Counter[str]:
    """Count the stand-in's requests by verb."""
    verbs: Counter[str] = Counter()

    def note(_: Any, about: Any, __: Any) -> None:
        if about.user_agent.startswith("helm-controller"):
            verbs[about.verb] += 1

    lab.server.on_call.append(note)
    return verbs


async def made(lab: Lab) -> None:
    await lab.create(REPOSITORY.new("shop", spec={"url": "https://charts.example.com", "interval": "5m"}))
    await lab.until(REPOSITORY, "shop", ready)


async def test_objects_from_the_cache_are_written_without_a_read(lab: Lab) -> None:
    await install_crds(lab.client, flux_crds())
    async with HelmController(lab.config, namespace=lab.namespace):
        verbs = asked(lab)
        await made(lab)
    assert verbs["update"] > 3
    assert verbs["get"] == 0


async def test_a_stale_cache_does_not_undo_a_concurrent_write(lab: Lab) -> None:
    await install_crds(lab.client, flux_crds())
    async with HelmController(lab.config, namespace=lab.namespace) as flux:
        await made(lab)
        stale = flux.find("HelmRepository", lab.namespace, "shop")
        await lab.patch(REPOSITORY, "shop", {"spec": {"interval": "9m"}, "metadata": {"labels": {"by": "somebody"}}})
        flux.find = lambda *_: stale  # type: ignore[method-assign]  # a cache that lags
        verbs = asked(lab)
        key = Key("", REPOSITORY, lab.namespace, "shop")
        assert await flux._rewrite(key, lambda newest: {**newest, "status": {"url": "https://a.example.com"}}, "status")
        assert (verbs["get"], verbs["update"]) == (1, 2)
    stored = await lab.get(REPOSITORY, "shop")
    assert (stored.get("spec", "interval"), stored.metadata.labels) == ("9m", {"by": "somebody"})
    assert stored.get("status", "url") == "https://a.example.com"
