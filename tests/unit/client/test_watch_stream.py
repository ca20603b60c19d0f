import pytest
from hypothesis import given
from hypothesis import strategies as st

from konverge.client.responses import LineSplitter


@given(lines=st.lists(st.binary(max_size=20).map(lambda raw: raw.replace(b"\n", b"")), max_size=10), data=st.data())
def test_any_cutting_of_a_stream_gives_the_same_lines(lines: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(line + b"\n" for line in lines) + b"rest"
    splitter, found, at = LineSplitter(limit=1000), b"", 0
    while at < len(stream):
        size = data.draw(st.integers(1, 15))
        block = splitter.feed(stream[at : at + size])
        assert not block or block.endswith(b"\n")
        found, at = found + block, at + size
    assert found == stream[: -len(b"rest")]
    assert splitter.rest == b"rest"


def test_a_whole_chunk_is_passed_on_uncopied() -> None:
    chunk = b'{"a":1}\n{"b":2}\n'
    assert LineSplitter(limit=100).feed(chunk) is chunk


def test_a_long_line_in_small_pieces_costs_time_linear_in_its_size() -> None:
    splitter = LineSplitter(limit=10_000_000)
    piece = b"x" * 1000
    for _ in range(6000):
        assert splitter.feed(piece) == b""
    assert len(splitter.feed(b"\n")) == 6_000_001
    assert splitter.rest == b""


def test_the_limit_holds_for_unfinished_lines_only() -> None:
    assert LineSplitter(limit=10).feed(b"y" * 10) == b""
    splitter = LineSplitter(limit=10)
    assert splitter.feed(b"x" * 50 + b"\n" + b"y" * 10) == b"x" * 50 + b"\n"
    with pytest.raises(ValueError, match="longer than 10 bytes"):
        splitter.feed(b"y")
