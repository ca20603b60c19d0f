"""kube-apiserver and the server in memory give the same responses in each case."""

from typing import Any

import pytest
from conformance.cases import Case
from conformance.masking import mask
from conformance.matrix import differences

pytestmark = [pytest.mark.control_plane, pytest.mark.timeout(600)]


def test_both_servers_respond_to_this_case_alike(case: Case, outcomes: dict[str, Any]) -> None:
    namespace, (real, memory) = outcomes[f"{case.area}: {case.name}"]
    wrong = [f"{one['step']}: {one['unexpected']}: {one.get('body')}" for one in real if "unexpected" in one]
    found = differences(mask(real, namespace), mask(memory, namespace))
    assert not found, "\n".join(["kube-apiserver | in memory", *found])
    assert not wrong, "\n".join(["the case expects another answer of kube-apiserver:", *wrong])
