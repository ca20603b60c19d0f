"""Peers: the same small controller on konverge, kopf, controller-runtime and kube-rs, and two limits, against a real kube-apiserver and a
stand-in of it that is not the limit.

Cold start, a storm of changes, an open loop, a restart, idling, the repair of children; docs/guide/benchmark.md describes its use and
figures. It takes hours at full size: `make bench ONLY=peers ARGS=--quick` shows in minutes that everything works. The variable PEERS
chooses parts of it (PEERS=--help). Raw samples, report and plots are written to build/peers/.
"""

import os
import sys
from dataclasses import replace
from typing import Any

from peers.campaign import campaign, options

from konverge_testing import BinariesMissing
from konverge_testing.binaries import find_binaries

BY_NAME_ONLY = True


def run() -> list[dict[str, Any]]:
    """Measure everything that the options select and return one row per figure."""
    chosen = options(os.environ)
    try:
        find_binaries(os.environ)
    except BinariesMissing as missing:
        print(f"skipped: the sessions on the real server ({missing})", file=sys.stderr)
        chosen = replace(chosen, sessions=tuple(each for each in chosen.sessions if each.stand_in))
    return campaign(chosen)
