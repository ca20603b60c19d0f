"""The webhook that assigns a pool to a claim: its response to one write, and the claims that it leaves unchanged."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from konverge.clock import rfc3339, wall_clock
from konverge.daemon.main import program
from konverge.objects import Object
from konverge.reconcilers import quota
from konverge.reconcilers.quota.admission import assigning
from konverge.reconcilers.quota.capsule_check import evidence
from konverge.reconcilers.quota.kinds import CLAIM, POOL
from konverge.runtime import Manager, ManagerSettings, WebhookSettings, rules_of
from konverge_testing import Admitted, admit

CPU = "requests.cpu"
PATH = "/mutate-capsule-clastix-io-v1beta2-resourcepoolclaim"
REACHED = ManagerSettings(webhooks=WebhookSettings(service="konverge/webhooks"))


def pool(
    name: str,
    available: Mapping[str, Any] | None = None,
    *,
    namespaces: tuple[str, ...] = ("web",),
    status: Mapping[str, Any] | None = None,
    age: float = 3600,
    **metadata: Any,
) -> Object:
    """A pool of 8 cores, with this amount available in its status."""
    said = {
        "observedGeneration": 1,
        "namespaces": list(namespaces),
        "allocation": {"hard": dict.fromkeys(available or {CPU: 8}, 8), "available": dict(available or {CPU: 8})},
    }
    made = POOL.new(name, spec={"quota": {"hard": {CPU: 8}}}).to_dict()
    created = rfc3339(wall_clock() - timedelta(seconds=age))
    made["metadata"] |= {"uid": f"uid-{name}", "creationTimestamp": created, **metadata}
    return Object({**made, "status": dict(said if status is None else status)})


def claim(wanted: Any = "1", *, status: Mapping[str, Any] | None = None, **spec: Any) -> Object:
    made = CLAIM.new("c", "web", spec={"claim": {CPU: wanted}, **spec}).to_dict()
    return Object(made if status is None else {**made, "status": dict(status)})


def said(type_: str, status: str, pool: str = "") -> dict[str, Any]:
    """A status with this condition, and the pool that the claim belongs to."""
    condition = {"type": type_, "status": status, "reason": "R", "message": ""}
    return {"condition": condition, **({"pool": {"name": pool, "uid": f"uid-{pool}"}} if pool else {})}


async def ask(new: Object, *pools: Object, old: Object | None = None) -> Admitted[Object]:
    answer = await admit(assigning(), new, old=old, cache=pools)
    assert answer.allowed
    assert answer.warnings == ()
    return answer


ANT, BEE = pool("ant"), pool("bee")


@pytest.mark.parametrize(
    ("new", "pools", "given"),
    [
        pytest.param(claim(), [BEE, ANT], "ant", id="the lowest name of two that fit"),
        pytest.param(claim(pool=""), [ANT], "ant", id="an empty text is no pool"),
        pytest.param(claim("5"), [pool("ant", {CPU: 4}), BEE], "bee", id="the first has too little now"),
        pytest.param(claim(), [pool("ant", {"pods": 4}), BEE], "bee", id="the first lacks the resource"),
        pytest.param(
            claim(), [pool("ant", namespaces=("db",)), BEE], "bee", id="the first does not serve the namespace"
        ),
        pytest.param(
            claim(), [pool("ant", deletionTimestamp="2026-01-01T00:00:00Z"), BEE], "bee", id="the first is to go"
        ),
        pytest.param(claim("0"), [pool("ant", {CPU: 0})], "ant", id="nothing fits where nothing is left"),
        pytest.param(claim("4000m"), [pool("ant", {CPU: 4})], "ant", id="amounts are compared by value"),
    ],
)
async def test_a_claim_without_a_pool_is_given_the_first_that_has_room(
    new: Object, pools: list[Object], given: str
) -> None:
    answer = await ask(new, *pools)
    [change] = answer.patch
    assert (change["path"], change["value"]) == ("/spec/pool", given)
    assert answer.object is not None
    assert answer.object.spec == {**new.spec, "pool": given}


@pytest.mark.parametrize(
    ("new", "pools"),
    [
        pytest.param(claim(pool="bee"), [ANT, BEE], id="it names a pool"),
        pytest.param(claim(pool="gone"), [ANT], id="it names a pool that is not there"),
        pytest.param(claim("9"), [ANT, BEE], id="none has room"),
        pytest.param(claim(), [], id="there is no pool"),
        pytest.param(claim("-1"), [ANT], id="less than nothing"),
        pytest.param(claim("much"), [ANT], id="no amount"),
        pytest.param(claim(pool=5), [ANT], id="what it names is no name"),
        pytest.param(CLAIM.new("c", "web"), [ANT], id="it has no spec"),
    ],
)
async def test_the_webhook_leaves_a_claim_unchanged_if_it_cannot_decide(new: Object, pools: list[Object]) -> None:
    assert (await ask(new, *pools)).patch == ()


@pytest.mark.parametrize(("age", "given"), [(1, []), (60, ["ant"])], ids=["new", "looked at by nobody"])
async def test_the_webhook_assigns_nothing_while_a_new_pool_has_no_status(age: float, given: list[str]) -> None:
    answer = await ask(claim(), pool("aaa", status={}, age=age), ANT)
    assert [change["value"] for change in answer.patch] == given


@pytest.mark.parametrize(
    ("old", "given"),
    [
        pytest.param(claim(status=said("Assigned", "False")), ["ant"], id="none fitted before"),
        pytest.param(claim(), ["ant"], id="nobody has looked at it yet"),
        pytest.param(
            claim(pool="bee", status=said("Bound", "False", "bee")), ["ant"], id="it waited, and its pool is taken out"
        ),
        pytest.param(claim(pool="gone", status=said("Assigned", "False")), ["ant"], id="its pool was not found"),
        pytest.param(claim(status=said("Bound", "True", "bee")), [], id="allocated where the controller put it"),
        pytest.param(claim(status=said("Bound", "False", "bee")), [], id="it waits where the controller put it"),
        pytest.param(claim(pool="bee", status=said("Bound", "True", "bee")), [], id="allocated where it wished to be"),
    ],
)
async def test_an_update_gives_a_pool_to_a_claim_that_has_none(old: Object, given: list[str]) -> None:
    answer = await ask(claim("2"), ANT, BEE, old=old)
    assert [change["value"] for change in answer.patch] == given


async def test_the_webhook_ignores_the_status_in_a_request() -> None:
    answer = await ask(claim(status=said("Bound", "True", "bee")), ANT, BEE)
    assert [change["value"] for change in answer.patch] == ["ant"]


async def test_a_claim_that_is_being_deleted_is_not_assigned() -> None:
    going = claim()
    going.data["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert (await ask(going, ANT, old=claim())).patch == ()


async def test_x16_the_same_pool_is_chosen_fifty_times() -> None:
    webhook, names = assigning(), set()
    for turn in range(50):
        pools = [pool(name) for name in ("bee", "ant", "cat")]
        answer = await admit(webhook, claim(), cache=pools[turn % 3 :] + pools[: turn % 3])
        names.add(answer.object.spec["pool"] if answer.object is not None else "")
    assert names == {"ant"}


async def test_the_webhook_decides_by_the_present_content_of_the_pool_cache() -> None:
    webhook = assigning()
    full = pool("ant", {CPU: 0}, resourceVersion="1")
    roomy = pool("ant", {CPU: 8}, resourceVersion="2")
    assert (await admit(webhook, claim(), cache=[full])).patch == ()
    assert len((await admit(webhook, claim(), cache=[roomy])).patch) == 1
    assert (await admit(webhook, claim(), cache=[])).patch == ()


# --- the webhook in the family ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "settings", "served"),
    [
        (None, ManagerSettings(), False),
        (None, REACHED, True),
        (None, ManagerSettings(webhooks=WebhookSettings(url="https://hooks.example.com")), True),
        (True, ManagerSettings(), True),
        (False, REACHED, False),
    ],
    ids=["nothing leads to it", "a Service leads to it", "a URL leads to it", "asked for", "not wanted"],
)
def test_the_webhook_is_served_if_it_is_reachable_or_switched_on(
    wanted: bool | None, settings: ManagerSettings, served: bool
) -> None:
    manager = Manager("konverge", settings=settings)
    quota.install(manager, quota.Settings(assign_at_admission=wanted))
    assert [webhook.path for webhook in manager.webhooks] == ([PATH] if served else [])


def test_the_webhook_configuration_ignores_failures_and_is_not_mistaken_for_capsules() -> None:
    manager = Manager("konverge", settings=REACHED)
    quota.install(manager)
    [configuration] = manager.webhook_configurations()
    [entry] = configuration["webhooks"]
    assert (entry["failurePolicy"], entry["sideEffects"], entry["timeoutSeconds"]) == ("Ignore", "None", 3)
    assert entry["rules"][0]["operations"] == ["CREATE", "UPDATE"]
    assert entry["rules"][0]["resources"] == ["resourcepoolclaims"]
    assert evidence([Object(configuration)], [], wall_clock()) == []


def test_the_rights_of_the_webhook_are_among_those_of_the_family() -> None:
    manager = Manager("konverge", settings=REACHED)
    quota.install(manager, quota.Settings(assign_at_admission=True))
    alone = Manager("konverge")
    quota.install(alone, quota.Settings(assign_at_admission=False))
    held = {
        (rule.group, resource, verb) for rule in quota.rules() for resource in rule.resources for verb in rule.verbs
    }
    assert {("capsule.clastix.io", "resourcepools", verb) for verb in ("get", "list", "watch")} <= held
    assert set(manager.rules()) >= {rule for controller in alone.controllers for rule in rules_of(controller)} & set(
        alone.rules()
    )
    named = [rule for rule in manager.rules() if rule not in alone.rules()]
    assert {resource for rule in named for resource in rule.resources} == {"secrets", "mutatingwebhookconfigurations"}


def konverge(*words: str) -> Result:
    return CliRunner().invoke(program, ["webhooks", *words], prog_name="konverge")


def test_the_command_prints_the_webhook_configuration_of_the_family() -> None:
    printed = konverge("--service", "konverge/webhooks", "--set", "controllers=quota")
    assert printed.exit_code == 0, printed.output
    secret, configuration = yaml.safe_load_all(printed.stdout)
    assert secret["kind"] == "Secret"
    [entry] = configuration["webhooks"]
    assert entry["clientConfig"]["service"]["path"] == PATH


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "konverge has no webhooks with these settings"),
        (
            (
                "--service",
                "konverge/webhooks",
                "--set",
                "controllers=quota",
                "--set",
                "quota.assign_at_admission=false",
            ),
            "konverge has no webhooks",
        ),
        (("--set", "quota.assign_at_admission=true"), "nothing says how the API server reaches the webhooks"),
        (
            ("--service", "konverge/webhooks", "--set", "controllers=apps", "--set", "apps.check_at_admission=false"),
            "konverge has no webhooks",
        ),
    ],
    ids=["nothing leads to it", "not wanted", "asked for, and nothing leads to it", "another family alone"],
)
def test_the_command_says_why_there_is_nothing_to_register(words: tuple[str, ...], said: str) -> None:
    printed = konverge(*words)
    assert (printed.exit_code, printed.stdout) == (1, "")
    assert said in printed.stderr
