"""The values that a server drew by chance, as a comparison of two runs shows them: by the field that each was drawn for. Pure.

Guarantees: a drawn value is masked in every place that it was copied to, whole or within a text, also as the key of a map and encoded in a
Secret. A value that a client chose (`nodePort: 30080`) is compared. Sources: `konverge_testing.apiserver.draws`.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any

__all__ = ["DrawnValues"]


class DrawnValues:
    """A mask of drawn values.

    >>> drawn = DrawnValues({"10.0.0.7": "clusterIP of Service web", 30123: "nodePort of Service web"})
    >>> drawn.masked({"url": "http://10.0.0.7:80", "port": 30123, "other": "10.0.0.77"})
    {'url': 'http://<clusterIP of Service web>:80', 'port': '<nodePort of Service web>', 'other': '10.0.0.77'}
    """

    def __init__(self, drawn: Mapping[str | int, str]) -> None:
        self._labels = {str(value): f"<{label}>" for value, label in drawn.items()}
        texts = "|".join(re.escape(text) for text in sorted(self._labels, key=len, reverse=True))
        self._pattern = re.compile(rf"(?<![\w-])(?:{texts})(?![\w-])(?!\.\d)") if texts else None

    def text(self, text: str) -> str:
        """Return a text with each drawn value in it replaced."""
        if self._pattern is None:
            return text
        return self._pattern.sub(lambda found: self._labels[found[0]], text)

    def masked(self, value: Any) -> Any:
        """Return a copy of a value with each drawn value replaced; the value itself if nothing was drawn."""
        return value if self._pattern is None else self._masked(value)

    def object(self, data: dict[str, Any]) -> dict[str, Any]:
        """Return a copy of an object with each drawn value replaced, in the data of a Secret too."""
        if self._pattern is None:
            return data
        shown: dict[str, Any] = self._masked(data)
        if data.get("kind") == "Secret" and isinstance(shown.get("data"), dict):
            shown["data"] = {key: self._encoded(value) for key, value in shown["data"].items()}
        return shown

    def _masked(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {self.text(key): self._masked(below) for key, below in value.items()}
        if isinstance(value, list):
            return [self._masked(item) for item in value]
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, int) and not isinstance(value, bool):
            return self._labels.get(str(value), value)
        return value

    def _encoded(self, value: Any) -> Any:
        """Return the decoded text of a base64 value if it has a drawn value, else the value."""
        try:
            text = base64.b64decode(value, validate=True).decode()
        except (TypeError, ValueError, binascii.Error):
            return value
        shown = self.text(text)
        return value if shown == text else shown
