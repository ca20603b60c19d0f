"""Continue tokens are the server's own, character by character."""

import pytest

from konverge_testing.apiserver.reading.tokens import ContinuePosition, continued, encode_token, parse_token
from konverge_testing.apiserver.statuses import StatusError

RECORDED = [
    ("eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MjM0LCJzdGFydCI6Ii9iXHUwMDAwIn0", ContinuePosition("/b\0", 234)),
    (
        "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MjQ4LCJzdGFydCI6Ii9kZWZhdWx0L2FcdTAwMDAifQ",
        ContinuePosition("/default/a\0", 248),
    ),
]


@pytest.mark.parametrize(("text", "place"), RECORDED)
def test_tokens_are_written_and_read_as_the_server_does(text: str, place: ContinuePosition) -> None:
    assert encode_token(place) == text
    assert parse_token(text) == place


def test_the_token_to_go_on_without_consistency_is_the_servers() -> None:
    text = continued(ContinuePosition("/b\0", 3))
    assert text == "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiYlx1MDAwMCJ9"
    assert parse_token(text) == ContinuePosition("/b\0", -1)


@pytest.mark.parametrize("text", ["", "e30", "bnVsbA", "W10", "MQ", "eyJydiI6", "====", "é", "abcde"])
def test_an_invalid_continue_token_is_a_bad_request(text: str) -> None:
    with pytest.raises(StatusError, match="continue key is not valid") as refused:
        parse_token(text)
    assert refused.value.code == 400
