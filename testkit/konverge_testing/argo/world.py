"""The world below the Argo stand-in: the steps of each template, and their outcomes."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["ArgoWorld", "Step"]


@dataclass(frozen=True, slots=True)
class Step:
    """One step. `suspend` waits for a person, or for `seconds` if those are given."""

    name: str
    seconds: float | None = None
    """How long it takes: 3 unless given, for ever if it suspends."""
    exit_code: int = 0
    failures: int = 0
    """How often it fails before it succeeds, with a retry strategy."""
    suspend: bool = False
    refused: str = ""
    """The API server's text if it refuses the pod."""


@dataclass(slots=True)
class ArgoWorld:
    """Outcomes by the name of the template. Change it while the controller runs."""

    steps: dict[str, tuple[Step, ...]] = field(default_factory=dict)
    """One step `check` for a template that is not named here."""
    outputs: dict[str, dict[str, str]] = field(default_factory=dict)
    """Global output parameters; the last write sets them."""
    invalid: dict[str, str] = field(default_factory=dict)
    """Templates whose spec is invalid, with Argo's text."""
    mutexes: dict[str, str] = field(default_factory=dict)
    """The lock that Workflows of a template take."""
    exit_handlers: set[str] = field(default_factory=set)
    """Templates with an exit handler."""
    parallelism: int | None = None
    """How many Workflows run at once; None: all of them."""
    kill_lost: bool = False
    """The signal of a shutdown does not reach the pod, which runs to its end."""
    instance_id: str = ""
    """The only `controller-instanceid` that is served; "": only Workflows without the label."""
