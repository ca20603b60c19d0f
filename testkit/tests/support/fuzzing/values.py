"""Values of fields, as hypothesis strategies: values that fit a schema, and values that no field expects."""

from typing import Any, Final

from hypothesis import strategies as st

from konverge_testing.apiserver.nodes import Node

_WORDS: Final = (
    *(
        "",
        "a",
        "A",
        "a-b",
        "a.b",
        "a/b",
        "a/b/c",
        "-",
        "--",
        ".",
        "..",
        "/",
        "//",
        "*",
        "%",
        "%s",
        "%zz",
        " ",
        "\t",
        "\n",
    ),
    *("0", "1", "-1", "1.5", "1e3", "1e400", "99999999999999999999", "1Gi", "-1Gi", "1Zi", "50%", "200%", "-5%", "%5"),
    *(
        "true",
        "null",
        "None",
        "~",
        "{}",
        "[]",
        "[",
        "{",
        "(",
        "((((",
        "\\",
        '"',
        "'",
        "$(A)",
        "{.a}",
        "$.",
        "[?(@.a==1)]",
    ),
    *(
        "192.0.2.1",
        "192.0.2.0/24",
        "192.0.2.1/33",
        "::1",
        "::/0",
        "fe80::1%eth0",
        "256.1.1.1",
        "http://[",
        "https://a/b",
    ),
    *(
        "2021-01-01T00:00:00Z",
        "2021-01-01T00:00:00.123456Z",
        "9999-12-31T23:59:59-01:00",
        "0000-00-00T00:00:00Z",
        "1h",
        "-1s",
    ),
    *("*/5 * * * *", "0 0 31 2 *", "@every 1s", "TZ=Nowhere * * * * *", "* * * * * *", "Europe/Paris"),
    *("self == oldSelf", "self.a.b[0]", "self.matches('(')", "1 / 0 == 0", "'a' in self", "self.all(x, x > 1)", "\0"),
    *(
        "v1",
        "apps/v1",
        "example.com/v1",
        "example.com",
        "pods",
        "pods/status",
        "Pod",
        "metadata.name",
        ".spec.a",
        "spec.a.b",
    ),
    *(
        "Always",
        "Never",
        "ClusterIP",
        "None",
        "Recreate",
        "Delete",
        "Retain",
        "ReadWriteOnce",
        "TCP",
        "UDP",
        "In",
        "Exists",
    ),
    *(
        "k=v",
        "k in (a",
        "a,b",
        "é",
        "\U0001f600",
        "\ud7ff",
        "x" * 64,
        "x" * 300,
        "kubernetes.io/a",
        "example.com/" + "x" * 70,
    ),
    *(
        "cpu",
        "memory",
        "storage",
        "requests.cpu",
        "count/pods",
        "pods",
        "hugepages-2Mi",
        "example.com/gpu",
        "ephemeral-storage",
    ),
)
_NUMBERS: Final = (
    0,
    1,
    2,
    -1,
    -2,
    7,
    63,
    64,
    100,
    101,
    65535,
    65536,
    2**31 - 1,
    2**31,
    -(2**31) - 1,
    2**63 - 1,
    -(2**63),
    2**63,
    10**30,
)

texts: Final = st.sampled_from(_WORDS) | st.text(max_size=6)
_numbers: Final = st.sampled_from(_NUMBERS)
_scalars: Final = st.one_of(st.none(), st.booleans(), texts, _numbers, st.sampled_from([0.5, -0.0, 1e300, -1.5, 1e18]))
anything: Final[st.SearchStrategy[Any]] = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
"""A JSON value that fits a field by luck alone."""

_DEEPEST: Final = 6


@st.composite
def fitting(draw: st.DrawFn, node: Node, depth: int = 0) -> Any:
    """Draw a value of the type that a schema names; occasionally another value, at any depth."""
    if draw(st.integers(0, 19)) == 19:
        return draw(anything)
    if node.int_or_string:
        return draw(_numbers | texts)
    if "enum" in node.schema:
        return draw(st.sampled_from(list(node.schema["enum"])) | texts)
    match node.type:
        case "object":
            return _object(draw, node, depth)
        case "array":
            if node.items is None or depth > _DEEPEST:
                return []
            return [draw(fitting(node.items, depth + 1)) for _ in range(draw(st.integers(0, 2)))]
        case "string":
            return draw(texts)
        case "integer":
            return draw(_numbers)
        case "number":
            return draw(_numbers | st.just(0.5))
        case "boolean":
            return draw(st.booleans())
    return draw(anything)


def _object(draw: st.DrawFn, node: Node, depth: int) -> dict[str, Any]:
    if depth > _DEEPEST:
        return {}
    found: dict[str, Any] = {}
    names = sorted(node.properties)
    if names:
        chosen = draw(st.lists(st.sampled_from(names), max_size=4, unique=True))
        required = [name for name in node.schema.get("required", ()) if name in node.properties]
        for name in dict.fromkeys([*required, *chosen]):
            found[name] = draw(fitting(node.properties[name], depth + 1))
    elif node.additional is not None:
        for name in draw(st.lists(texts, max_size=2, unique=True)):
            found[name] = draw(fitting(node.additional, depth + 1))
    return found
