"""A stand-in for Flux on an API server: helm-controller and source-controller, played by one small program. No Helm runs.

    async with HelmController(config, world=World(refused={"1.2.0": "Service is invalid"})):
        ...                                 # HelmReleases become ready, or fail, in Flux's words

Guarantees: its writes and their order equal recordings of the real controllers (tests/recordings/flux; the
comparison is a test). It writes as the field manager `helm-controller`, through the status subresource, adds and removes Flux's finalizers,
creates the HelmChart of a release, and reads the Secrets and ConfigMaps with values.

Caveats: no reconcile at each `interval`; nothing is rendered or installed. `World` decides the outcome of each chart and
may be changed while the controller runs; `look_again` requests a reconcile of every object at once.
"""

from __future__ import annotations

from konverge_testing.flux.controllers import KINDS, HelmController, flux_crds
from konverge_testing.flux.state import World

__all__ = ["KINDS", "HelmController", "World", "flux_crds"]
