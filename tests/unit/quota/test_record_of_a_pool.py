"""A list of claims that is not ours, in the status of a pool: of an older schema, or written by hand past the rules."""

from typing import Any

import pytest

from konverge.crds.quota_v1beta2 import ResourcePool
from konverge.reconcilers.quota.parse import record_in

ENTRY = {"name": "a", "uid": "u", "claims": {"pods": "1"}}


@pytest.mark.parametrize(
    "entries",
    [
        "text",
        {"a": 1},
        [None],
        [[]],
        [{}],
        [{"name": "a"}],
        [{**ENTRY, "name": 5}],
        [{**ENTRY, "name": None}],
        [{**ENTRY, "uid": ["u"]}],
        [{**ENTRY, "claims": [1]}],
        [{**ENTRY, "claims": {"pods": {"a": 1}}}],
    ],
    ids=str,
)
def test_an_unreadable_list_of_claims_counts_as_lost(entries: Any) -> None:
    status = {"claims": {"web": entries}, "claimCount": 1, "allocation": {"hard": {"pods": "9"}}}
    pool = ResourcePool.decode({"metadata": {"name": "p"}, "spec": {"quota": {"hard": {"pods": 9}}}, "status": status})
    record = record_in(pool.status)
    assert (record.lost, record.claims) == (True, {})


@pytest.mark.parametrize("amount", ["x", True, "9" * 400, 1e308], ids=["text", "true", "400 digits", "1e308"])
def test_an_entry_with_an_odd_amount_stays_listed(amount: Any) -> None:
    entries = [{**ENTRY, "claims": {"pods": amount}}]
    status = {"claims": {"web": entries}, "claimCount": 1, "allocation": {"hard": {"pods": "9"}}}
    pool = ResourcePool.decode({"metadata": {"name": "p"}, "spec": {"quota": {"hard": {"pods": 9}}}, "status": status})
    record = record_in(pool.status)
    assert not record.lost
    assert [entry.uid for entry in record.claims["web"]] == ["u"]
