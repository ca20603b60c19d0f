"""An extension of griffe, which reads the docstrings: examples are shown as code, and fields of a built value are left out."""

import re
from typing import Any, Final

import griffe

BUILT: Final = ("Controller",)
"""Classes whose values are built by methods: their fields are read by the runtime only."""

_EXAMPLE: Final = re.compile(r"^>>> .*(?:\n(?!\s*$).+)*(?:\n\n>>> .*(?:\n(?!\s*$).+)*)*", re.MULTILINE)


def fenced(text: str) -> str:
    """Return a docstring whose examples are blocks of code; Markdown takes `>>>` for three quotations."""
    return _EXAMPLE.sub(lambda match: f"```pycon\n{match[0]}\n```", text)


class Docstrings(griffe.Extension):
    """Apply `fenced` to each docstring, and remove the fields of the classes in `BUILT`."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Replace the docstring of an object that griffe has read."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        """Remove the fields of a class whose values are built by methods."""
        if cls.name in BUILT:
            for name in [name for name, member in cls.members.items() if member.is_attribute]:
                cls.del_member(name)
