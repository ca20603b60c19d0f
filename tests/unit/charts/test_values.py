"""values.yaml with its comments: the table of a README, and other defaults."""

import pytest

from konverge.charts.values import Value, table, values_of, with_value, without

TEXT = """\
# The families.
families:
  a:
    # Switches a on.
    enabled: true

# Where it comes from:
# a registry.
image:
  tag: ""  # nothing
  # A list | of names.
  pull: []
plain: 3
"""


def test_each_value_has_the_comment_above_it_or_that_of_its_group() -> None:
    assert values_of(TEXT) == (
        Value("families.a.enabled", True, "Switches a on."),
        Value("image.tag", "", "Where it comes from: a registry."),
        Value("image.pull", [], "A list | of names."),
        Value("plain", 3, ""),
    )


def test_bar_in_a_comment_does_not_end_the_table_cell() -> None:
    assert "| `image.pull` | `[]` | A list \\| of names. |" in table(TEXT)


def test_a_key_is_left_out_with_its_comment_and_nothing_else() -> None:
    assert without(TEXT, "families") == TEXT.partition("\n\n")[2]
    assert without(TEXT, "plain") == TEXT.replace("plain: 3\n", "")
    assert values_of(without(TEXT, "image"))[-1].path == "plain"


@pytest.mark.parametrize(
    ("path", "value"), [("image.tag", 'v1: "x"'), ("image.pull", ["a"]), ("plain", True), ("families.a.enabled", False)]
)
def test_a_default_is_replaced_and_the_rest_stays(path: str, value: object) -> None:
    changed = with_value(TEXT, path, value)
    assert {one.path: one.default for one in values_of(changed)} == {
        **{one.path: one.default for one in values_of(TEXT)},
        path: value,
    }
    assert [one.doc for one in values_of(changed)] == [one.doc for one in values_of(TEXT)]
