"""Objects with a few values changed, as hypothesis strategies."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from hypothesis import strategies as st

from konverge_testing.admitted_values import admitted

Schema = Mapping[str, Any]


@st.composite
def changed(draw: st.DrawFn, base: Mapping[str, Any], schema: Schema) -> dict[str, Any]:
    """Draw the base with new values for a few of its fields, known or unknown: an object of random fields only is rarely admitted."""
    made = deepcopy(dict(base))
    for _ in range(draw(st.integers(0, 3))):
        here, at = made, schema
        while True:
            name = draw(st.sampled_from(sorted(at["properties"])))
            inner = at["properties"][name]
            if not isinstance(here.get(name), dict) or "properties" not in inner or draw(st.booleans()):
                here[name] = draw(admitted(inner))
                break
            here, at = here[name], inner
    return made
