"""Files of YAML that tests read when they are imported, in each process of a test run: libyaml takes a seventh of the time."""

from pathlib import Path
from typing import Any

import yaml


def load_yaml(path: Path) -> Any:
    """Return the only document of a file."""
    return yaml.load(path.read_text(), Loader=yaml.CSafeLoader)
