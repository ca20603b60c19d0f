import pytest

from konverge.selectors import LabelSelector


@pytest.mark.parametrize(
    ("text", "labels", "matches"),
    [
        ("", {}, True),
        (" ", {"a": "b"}, True),
        ("app=shop", {"app": "shop"}, True),
        ("app == shop, tier!=test", {"app": "shop", "tier": "test"}, False),
        ("example.com/tier in (a, b)", {"example.com/tier": "b"}, True),
        ("tier in (a,)", {"tier": ""}, True),
        ("tier notin (a)", {}, True),
        ("tier,!app", {"tier": ""}, True),
        ("app=", {"app": ""}, True),
    ],
)
def test_a_selector_decides_as_the_server_does(text: str, labels: dict[str, str], matches: bool) -> None:
    assert LabelSelector.parse(text).matches(labels) is matches


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("tier in", "write key=value, key!=value"),
        ("tier in (", "write key=value, key!=value"),
        ("tier in ()", "write key=value, key!=value"),
        ("a==b=c", "write key=value, key!=value"),
        ("app=shop,,tier", "write key=value, key!=value"),
        ("app=shop,", "write key=value, key!=value"),
        ("replicas>1", "'replicas>1' is not a label key"),
        ("a/b/c=d", "'a/b/c' is not a label key"),
        ("/app=shop", "'/app' is not a label key"),
        ("Example.com/app", "'Example.com/app' is not a label key"),
        ("app=shop/web", "'shop/web' is not a label value"),
        (f"app={'x' * 64}", "is not a label value"),
        ("app: shop", "write key=value, key!=value"),
    ],
)
def test_a_malformed_selector_is_refused_with_what_to_write(text: str, words: str) -> None:
    with pytest.raises(ValueError, match="not a") as caught:
        LabelSelector.parse(text)
    assert words in str(caught.value)
