from konverge.errors import Forbidden, RetryAfter
from konverge.keys import Key
from konverge.kinds import kind
from konverge.runtime.controller.denials import Denials

WIDGET = kind("tests.konverge.dev/v1", "Widget")
ONE, TWO = (Key("", WIDGET, "web", name) for name in ("one", "two"))
RULE = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create", "patch"]}
OTHER = {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["delete"]}


def denied(verb: str = "patch", resource: str = "secrets", group: str = "") -> Forbidden:
    words = f'{resource} "x" is forbidden: User "u" cannot {verb} resource "{resource}" in API group "{group}" in the namespace "web"'
    return Forbidden(words, status=403, request=f"{'apply' if verb == 'patch' else verb} {resource} web/x")


def test_a_refused_right_is_an_obstacle_until_its_key_reconciles() -> None:
    denials = Denials()
    assert denials.note(ONE, denied()) == RULE
    [obstacle] = denials.obstacles
    assert obstacle.rule == RULE
    assert obstacle.cause == "Forbidden"
    assert "web/one" in obstacle.message
    assert denials.note(ONE, None) is None
    assert not denials.obstacles


def test_error_that_only_chooses_the_delay_after_a_denial_is_a_denial() -> None:
    denials = Denials()
    error = RetryAfter(30)
    error.__cause__ = denied()
    assert denials.note(ONE, error) == RULE
    error.__cause__ = ValueError("another matter")
    assert denials.note(ONE, error) is None


def test_rule_that_several_keys_lack_is_one_obstacle_until_all_reconcile() -> None:
    denials = Denials()
    for key in (ONE, TWO, ONE):
        denials.note(key, denied())
    assert len(denials.obstacles) == 1
    denials.note(ONE, ValueError("another matter"))
    assert len(denials.obstacles) == 1
    denials.forget(TWO)
    denials.forget(TWO)
    assert not denials.obstacles


def test_a_key_that_gets_further_lacks_the_next_rule_alone() -> None:
    denials = Denials()
    denials.note(ONE, denied())
    assert denials.note(ONE, denied("delete", "jobs", "batch")) == OTHER
    assert [obstacle.rule for obstacle in denials.obstacles] == [OTHER]


def test_a_refusal_that_an_rbac_rule_cannot_mend_adds_no_obstacle() -> None:
    denials = Denials()
    assert denials.note(ONE, Forbidden("exceeded quota: small", status=403)) is None
    assert not denials.obstacles


def test_process_that_stops_leading_lacks_no_right_and_notes_denials_again() -> None:
    changes: list[int] = []
    denials = Denials(lambda: changes.append(1))
    for key in (ONE, TWO):
        denials.note(key, denied())
    before = len(changes)
    denials.clear()
    denials.clear()
    assert not denials.obstacles
    assert len(changes) == before + 1
    denials.note(ONE, denied())
    denials.note(ONE, None)
    assert not denials.obstacles
