"""Bodies of requests, as hypothesis strategies: good objects with a few values replaced at random, and their encoding as bytes."""

import copy
import json
from collections.abc import Callable
from typing import Any, Final

import yaml
from fuzzing.values import anything, fitting, texts
from hypothesis import strategies as st

from konverge_testing.apiserver.nodes import ANYTHING, Node

Data = dict[str, Any]


@st.composite
def changed(draw: st.DrawFn, base: Data, node: Node) -> Data:
    """Draw a good object with up to three fields replaced or removed; its schema may know these fields or not."""
    made = copy.deepcopy(base)
    for _ in range(draw(st.sampled_from([0, 1, 1, 2, 2, 3, 5]))):
        _change(draw, made, node)
    return made


def _change(draw: st.DrawFn, made: Data, node: Node) -> None:
    here: Any = made
    at = node
    for _ in range(12):
        key, below = _place(draw, here, at)
        if key is None:
            return
        found = here.get(key) if isinstance(here, dict) else here[key]
        if not isinstance(found, (dict, list)) or not found or draw(st.integers(0, 3)) == 0:
            if draw(st.integers(0, 7)) == 0:
                here.pop(key, None) if isinstance(here, dict) else here.pop(key)
            else:
                here[key] = draw(fitting(below))
            return
        here, at = found, below


def _place(draw: st.DrawFn, here: Any, at: Node) -> tuple[Any, Node]:
    if isinstance(here, list):
        return (draw(st.integers(0, len(here) - 1)), at.items or ANYTHING) if here else (None, at)
    names = sorted({*here, *at.properties}, key=str)
    if not names or draw(st.integers(0, 19)) == 0:
        key: Any = draw(texts)
    else:
        key = draw(st.sampled_from(names))
    return key, at.child(key) or ANYTHING


_POINTERS: Final = ("", "/", "/metadata", "/metadata/labels", "/metadata/labels/a", "/metadata/finalizers/-", "/metadata/name",
                    "/metadata/resourceVersion", "/metadata/managedFields", "/spec", "/spec/a", "/status", "/data", "/kind",
                    "/apiVersion", "/spec/template/spec/containers/0", "/spec/template/spec/containers/-1/image", "/~1", "/~", "spec",
                    "/metadata/ownerReferences/0", "/spec/99999999999999999999", "/rules/0/verbs")  # fmt: skip


@st.composite
def json_patches(draw: st.DrawFn, base: Data, node: Node) -> Any:
    """Draw the operations of a JSON patch."""
    if draw(st.integers(0, 9)) == 0:
        return draw(anything)
    operations = []
    for _ in range(draw(st.integers(0, 3))):
        operation: Data = {
            "op": draw(st.sampled_from(["add", "replace", "remove", "test", "move", "copy", "else"])),
            "path": draw(st.sampled_from(_POINTERS) | _pointer(base)),
        }
        if draw(st.integers(0, 4)):
            operation["value"] = draw(anything | fitting(node))
        if operation["op"] in ("move", "copy"):
            operation["from"] = draw(st.sampled_from(_POINTERS) | _pointer(base))
        operations.append(draw(anything) if draw(st.integers(0, 19)) == 0 else operation)
    return operations


@st.composite
def _pointer(draw: st.DrawFn, base: Data) -> str:
    here: Any = base
    parts = [""]
    while isinstance(here, (dict, list)) and here and draw(st.integers(0, 4)):
        key = draw(st.sampled_from(sorted(here))) if isinstance(here, dict) else draw(st.integers(0, len(here) - 1))
        parts.append(str(key).replace("~", "~0").replace("/", "~1"))
        here = here[key]
    return "/".join(parts)


def _twice(body: bytes) -> bytes:
    return body + b"\n---\n" + body


def _repeated(body: bytes) -> bytes:
    return body.replace(b'"metadata":', b'"metadata": {"name": "b", "name": "c"}, "metadata":', 1)


_SPOILS: Final[tuple[Callable[[bytes], bytes], ...]] = (
    _twice,
    _repeated,
    lambda body: body + b"\n---\n",
    lambda body: body + body,
    lambda body: body[: len(body) // 2],
    lambda body: b"\xef\xbb\xbf" + body,
    lambda body: body.replace(b'"a"', b'"\xff\xfe"'),
    lambda body: body.replace(b'"a"', b'"\\ud800"'),
    lambda body: body.replace(b'"a"', b'"\0"'),
    lambda body: body.replace(b'"a"', b'"\\u0000"'),
    lambda body: body.replace(b":", b": 1e999 ,", 1),
    lambda body: body.replace(b": 1", b": 1" + b"0" * 400),
    lambda body: body.replace(b": 1", b": 1e400"),
    lambda body: body.replace(b"{", b'{"spec": ' + b"[" * 30_000, 1),
    lambda body: body[:-1] + b', "x": ' + b'{"a":' * 12_000 + b"1" + b"}" * 12_000 + b"}",
    lambda body: body[:-1] + b', "spec": ' + b"[" * 900 + b"]" * 900 + b"}",
    lambda body: b"[" * 100_000,
    lambda body: b"- " * 3_000,
    lambda body: b"a: &a [*a, *a]",
    lambda body: b"a: &a [x]\n" + b"".join(b"k%d: [*a, *a]\n" % number for number in range(50)),
    lambda body: b"? {a: b}\n: c",
    lambda body: b"!!python/object:os.system x",
    lambda body: b"%YAML 9.9\n---\n" + body,
    lambda body: b"",
    lambda body: b"null",
    lambda body: b"[" + body + b"]",
    lambda body: b"\0" + body,
    lambda body: b"k8s\0" + body,
    lambda body: b"k8s\0\x0a\xff\xff\xff\xff\xff\xff",
)


@st.composite
def carried(draw: st.DrawFn, document: Any, *, yaml_too: bool = False) -> bytes:
    """Draw the bytes of a document: as JSON, or as YAML, valid or corrupted."""
    if yaml_too and draw(st.integers(0, 3)) == 0:
        body = yaml.safe_dump(document).encode("utf-8", "surrogatepass")
    else:
        body = json.dumps(document).encode()
    if draw(st.integers(0, 11)) == 0:
        body = draw(st.sampled_from(_SPOILS))(body)
    elif draw(st.integers(0, 39)) == 0:
        at = draw(st.integers(0, len(body)))
        body = body[:at] + draw(st.binary(max_size=4)) + body[at:]
    return body
