"""No request, whatever its target, verb, headers and body, gets an internal error of the server, and none hangs.

Requests are drawn from the server's discovery, the schemas of its kinds and the objects that the conformance cases create, with some fields
replaced. FUZZ_EXAMPLES=5000 draws more.
"""

import os

import pytest
from fuzzing.calls import Script, scripts
from fuzzing.driving import problems_of
from hypothesis import HealthCheck, given, settings

_EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "150"))


@pytest.mark.timeout(60 + _EXAMPLES)
@settings(
    max_examples=_EXAMPLES,
    deadline=None,
    derandomize="FUZZ_EXAMPLES" not in os.environ,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(script=scripts())
def test_no_request_makes_the_server_fail_or_hang(script: Script) -> None:
    assert problems_of(script) == []
