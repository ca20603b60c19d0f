"""Write docs/reference/pull-protocol.json from the models of the protocol: `python tools/openapi.py`, which `make generate` runs.

tests/unit/clusters/test_pull_document.py fails if the file differs from the models.
"""

import json
from pathlib import Path

from konverge.reconcilers.clusters.openapi import document

TARGET = Path(__file__).resolve().parent.parent / "docs/reference/pull-protocol.json"


def text() -> str:
    """Return the content of the file."""
    return json.dumps(document(), indent=2) + "\n"


if __name__ == "__main__":
    TARGET.write_text(text(), encoding="utf-8")
