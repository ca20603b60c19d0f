import asyncio
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from konverge.client import LEFT_OUT, decode_object, flattened
from konverge.client.depth import LEVELS, flattened_in_turns
from konverge.client.responses import WatchStream, decode_page
from konverge.errors import ServerFailure
from konverge.informers.decode import Decoder
from konverge.informers.settings import Selection
from konverge.kinds import kind

POD = kind("v1", "Pod")
_JSON = st.recursive(
    st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
)


def pod(name: str, depth: int) -> bytes:
    head = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "web", "resourceVersion": "7"}}
    return (
        json.dumps(head).encode()[:-1] + b',"spec":' + b'{"a":[' * (depth // 2) + b'"}"' + b"]}" * (depth // 2) + b"}"
    )


@given(_JSON)
def test_json_that_is_not_nested_deeply_is_unchanged(value: Any) -> None:
    text = msgspec.json.encode(value)
    assert flattened(text) == text


@pytest.mark.parametrize("depth", [LEVELS - 2, LEVELS, LEVELS + 2, 9_000])
def test_object_of_any_depth_is_decoded_and_omissions_are_visible(depth: int) -> None:
    text = pod("deep", depth)
    assert decode_object(text)["metadata"]["name"] == "deep"
    assert (LEFT_OUT in flattened(text)) is (depth >= LEVELS)
    json.loads(flattened(text))


@pytest.mark.parametrize("depth", [930, 960, 990, 9_000])
async def test_object_with_excessive_nesting_does_not_affect_others_in_a_watch(depth: int) -> None:
    lines = b"".join(b'{"type":"ADDED","object":' + pod(*of) + b"}\n" for of in (("a", 2), ("deep", depth), ("b", 2)))
    parts = iter((lines, b""))

    async def read() -> bytes:
        return next(parts)

    stream = WatchStream(read, what="watch pods", idle_seconds=9, max_line_bytes=10**6)
    decoder = Decoder(Selection(POD), frozenset({"konverge"}), lambda *_: pytest.fail("an object was dropped"))
    names = []
    async for events in stream:
        for given_ in decoder.events(events):
            names += [change.name for change in given_.changes]  # type: ignore[union-attr]  # all are Items
    assert names == ["a", "deep", "b"]


async def test_the_search_for_deep_parts_lets_others_run_in_between() -> None:
    wide = b'{"a":[' + b"[]," * 100_000 + b'0],"b":' + b"[" * 5_000 + b"]" * 5_000 + b"}"
    search, turns = asyncio.ensure_future(flattened_in_turns(wide)), 0
    while not search.done():
        turns += 1
        await asyncio.sleep(0)
    assert turns >= 200_000 / 20_000
    assert search.result() == flattened(wide)


async def test_a_page_with_a_deep_item_is_cut_into_its_items() -> None:
    items = b",".join(pod(*of) for of in (("a", 2), ("deep", 9_000), ("b", 2)))
    page = await decode_page(b'{"metadata":{"resourceVersion":"9"},"items":[' + items + b"]}")
    assert [decode_object(item)["metadata"]["name"] for item in page.items] == ["a", "deep", "b"]


@pytest.mark.parametrize("body", [b"", b"[]", b'{"items":7}', b"\xff", b"[" * 5_000], ids=repr)
async def test_a_page_other_than_a_list_is_a_failure_of_the_server(body: bytes) -> None:
    with pytest.raises(ServerFailure, match="are no list"):
        await decode_page(body)
