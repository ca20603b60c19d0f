"""Which pods may request an instance: the decision as a table, and the limit of a namespace."""

import pytest
from pydantic import ValidationError

from konverge.reconcilers.machines.ondemand.allowances import demand_problem, over_limit
from konverge.reconcilers.machines.ondemand.decide import OnDemandAction, next_steps
from konverge.reconcilers.machines.ondemand.demand import Demand, MadeObject, PodRef, PodState
from konverge.reconcilers.machines.ondemand.observe import ObservedPods
from konverge.reconcilers.machines.settings import OnDemandAllowance

HOME = "ops"
WEB = OnDemandAllowance(namespaces=("web", "batch"), groups=("gpu", "cpu"), instance_types=("g5",), machines=2)
OPEN = OnDemandAllowance(namespaces=("*",), groups=("*",), instance_types=("*",), machines=1)


def asked(namespace: str = "web", group: str = "gpu", instance_type: str = "", name: str = "job") -> Demand:
    return Demand(PodRef(namespace, name, f"{namespace}/{name}"), group, instance_type)


@pytest.mark.parametrize(
    ("demand", "allowances", "words"),
    [
        (asked(), [], "pods of this namespace may not ask for instances: ask an administrator"),
        (asked("other"), [WEB], "may not ask for instances: "),
        (asked(group="control-plane"), [WEB], "instances of group control-plane"),
        (asked(instance_type="p5"), [WEB], "the instance type 'p5': leave it out"),
        (asked(instance_type="x" * 200), [OPEN], "use at most 128"),
        (asked(group="No Group"), [OPEN], "'No Group' is not the name of a group: use at most 32"),
        (asked(group="x" * 5000), [OPEN], "is not the name of a group"),
        (asked(HOME, group="No Group"), [], "is not the name of a group"),
        (asked("web-2"), [WEB], "may not ask for instances"),
        (asked("*"), [WEB], "may not ask for instances"),
    ],
)
def test_a_pod_without_an_allowance_is_refused_with_the_remedy(
    demand: Demand, allowances: list[OnDemandAllowance], words: str
) -> None:
    found = demand_problem(demand, allowances, home=HOME)
    assert words in found
    assert len(found) < 400


@pytest.mark.parametrize(
    ("demand", "allowances"),
    [
        (asked(), [WEB]),
        (asked("batch", "cpu", "g5"), [WEB]),
        (asked("other", "any", "any"), [WEB, OPEN]),
        (asked(HOME, "any", "any"), []),
    ],
)
def test_a_pod_with_an_allowance_gets_an_instance(demand: Demand, allowances: list[OnDemandAllowance]) -> None:
    assert demand_problem(demand, allowances, home=HOME) == ""


@pytest.mark.parametrize(
    ("demand", "used", "waits"),
    [
        (asked(), 1, False),
        (asked(), 2, True),
        (asked("other"), 0, False),
        (asked("other"), 1, True),
        (asked(HOME), 99, False),
    ],
)
def test_the_limit_of_a_namespace_is_that_of_its_largest_allowance(demand: Demand, used: int, waits: bool) -> None:
    assert bool(over_limit(demand, [WEB, OPEN], home=HOME, used=used)) is waits


def test_pods_beyond_the_limit_wait_and_another_namespace_does_not() -> None:
    served = PodRef("web", "first", "u0")
    made = (MadeObject("on-demand-first", "m0", served),)
    demands = (*(asked(name=f"job-{number}") for number in range(4)), asked("batch"))
    states = {one.pod: PodState.WAITING for one in demands} | {served: PodState.SCHEDULED}
    steps = next_steps(
        ObservedPods(demands, made, made), states, lambda one, used: over_limit(one, [WEB], home=HOME, used=used)
    )
    created = [step.pod.path for step in steps if step.action is OnDemandAction.CREATE_BOTH]
    assert created == ["batch/job", "web/job-0"]
    assert {step.pod.name for step in steps if step.action is OnDemandAction.REFUSE} == {"job-1", "job-2", "job-3"}


@pytest.mark.parametrize("wrong", [{"namespaces": ()}, {"groups": ()}, {"machines": 0}, {"groups": ("",)}])
def test_an_allowance_names_namespaces_groups_and_a_limit(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        OnDemandAllowance.model_validate({"namespaces": ["web"], "groups": ["gpu"], **wrong})
