"""The drift test of generated models: the models are as in the API of a real server (docs/guide/models.md)."""

import subprocess
import sys
from pathlib import Path

import report_models

from konverge_testing import ControlPlane

KONVERGE = Path(sys.executable).with_name("konverge")
MODELS = Path(report_models.__file__)


def test_the_models_are_as_in_the_api(control_plane: ControlPlane) -> None:
    words = ["models", "--output", str(MODELS), "--check", "--kubeconfig", str(control_plane.kubeconfig)]
    check = subprocess.run([KONVERGE, *words], capture_output=True, text=True, check=False)
    assert check.returncode == 0, check.stderr
