"""An applied object is stored unchanged, whatever characters it holds; tests/e2e/test_client.py checks the same with kube-apiserver."""

from random import Random

from every_character import Page, differences

from konverge.client import Client
from konverge.crds import crd
from konverge_testing import ApiServer, install_crds


async def test_every_code_point_in_keys_and_values_is_stored_unchanged() -> None:
    async with (
        ApiServer(random=Random(1)) as server,
        Client(server.config(), name="tester", random=Random(2)) as client,
    ):
        await install_crds(client, [crd(Page)])
        assert await differences(client, "default") == []
