"""Checks of a controller that is added to a manager: mistakes that the declarations show before anything runs. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from konverge.errors import UsageError
from konverge.runtime.builder.builder import Controller
from konverge.runtime.reconcile.services import field_manager

__all__ = ["check_controller", "check_running", "field_managers"]


def check_controller(controller: Controller[Any], others: Iterable[Controller[Any]]) -> None:
    """Raise UsageError if a controller cannot run, or not beside these others."""
    if controller.reconciler is None:
        raise UsageError(f"controller {controller.name!r} has no reconciler; end its sentence with .reconciled_by(...)")
    for other in others:
        if other.name == controller.name:
            raise UsageError(
                f"two controllers are named {controller.name!r}; give one of them another with .named(...)"
            )
        _check_finalizers(controller, other)
        _check_statuses(controller, other)
        _check_statuses(other, controller)
        _check_status_writers(controller, other)
        _check_families(controller, other)
    for watch in (*controller.owned, *controller.watched):
        if watch.kind in dict(controller.statuses) and (watch.metadata_only or watch.transform is not None):
            raise UsageError(
                f"controller {controller.name!r} writes the status of {watch.kind.group_kind}, which its cache does not hold as stored: "
                "leave out metadata_only or transform"
            )


def _check_families(spec: Controller[Any], other: Controller[Any]) -> None:
    """Raise UsageError if two controllers would give one object, which has one owner, to different replicas.

    The check ignores label selectors, since an object may match both.
    """
    if other.kind.group_kind != spec.kind.group_kind or None in (spec.family, other.family):
        return
    if spec.family is not other.family:
        raise UsageError(
            f"controllers {other.name!r} and {spec.name!r} share {spec.kind.group_kind} among replicas by different keys, and an object "
            "has one owner: give both the same function with .sharded(by=...)"
        )


def _check_status_writers(spec: Controller[Any], other: Controller[Any]) -> None:
    if spec.metadata_only or other.metadata_only:
        return  # such a controller writes no status
    # Two versions of a kind are one object with one status.
    if other.kind.group_kind != spec.kind.group_kind or other.status_suffix != spec.status_suffix:
        return
    if other.status_shared and spec.status_shared:
        return
    raise UsageError(
        f"controllers {other.name!r} and {spec.name!r} both write the status of {spec.kind.group_kind} as the "
        "same field manager and would delete each other's fields; let each declare its own with .writes_status_as(suffix), "
        "or both the same one with shared=True where they never write at the same time"
    )


def _check_statuses(spec: Controller[Any], other: Controller[Any]) -> None:
    """Raise UsageError if a controller writes the status of the other's kind as another field manager."""
    for kind, suffix in spec.statuses:
        agreed = other.status_shared and other.status_suffix == suffix
        if other.kind.group_kind == kind.group_kind and not agreed:
            raise UsageError(
                f"controller {spec.name!r} writes the status of {kind.group_kind} as {suffix!r}, and controller {other.name!r} does not "
                f"share that; declare .writes_status_as({suffix!r}, shared=True) there"
            )


def _check_finalizers(spec: Controller[Any], other: Controller[Any]) -> None:
    if not spec.finalizer_name or spec.kind.group_kind != other.kind.group_kind or spec.labels != other.labels:
        return
    if spec.finalizer_name == other.finalizer_name:
        raise UsageError(
            f"controllers {other.name!r} and {spec.name!r} both hold {spec.kind.group_kind} by the finalizer {spec.finalizer_name}; "
            "the first to finish would release the objects before the other has cleaned up; give each a finalizer of its own"
        )


def field_managers(manager: str, controller: Controller[Any]) -> tuple[str, ...]:
    """Return every field manager that a controller of a manager writes as."""
    suffixes = (controller.status_suffix, *(suffix for _, suffix in controller.statuses))
    return tuple(field_manager(manager, suffix) for suffix in suffixes)


def check_running(controller: Controller[Any], manager: str, known: Collection[str], stopping: Collection[str]) -> None:
    """Raise UsageError if a running manager cannot take a controller in.

    `known` are the field managers that its caches show, `stopping` the names of controllers that have not ended.
    """
    if controller.name in stopping:
        raise UsageError(
            f"controller {controller.name!r} is still being stopped; add it again when remove() has returned"
        )
    for writer in field_managers(manager, controller):
        if writer not in known:
            raise UsageError(
                f"controller {controller.name!r} writes as {writer}, which this manager did not know when it started, so its "
                "caches do not show what that writer owns; add a controller with this suffix before the start"
            )
