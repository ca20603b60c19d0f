"""Asking webhooks: mutating ones in turn, validating ones all at once.

Promises
- Mutating hooks see what those before them made of the object; a hook with reinvocationPolicy IfNeeded is asked once more where the
  object has changed behind it. What a patch makes is settled (defaulted) before the next hook sees it.
- A hook that cannot be asked refuses the write as a 500, or lets it pass (failurePolicy Ignore); a hook that says no refuses it with its
  own status. In a dry run a hook with side effects is a refusal.

The rules are those of k8s.io/apiserver `pkg/admission/plugin/webhook/{mutating,validating}/dispatcher.go`.
"""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from konverge.testing.apiserver.admission.call import AdmissionCall, Data
from konverge.testing.apiserver.admission.calling import Webhooks
from konverge.testing.apiserver.admission.conditions import conditions_hold
from konverge.testing.apiserver.admission.hooks import Hook, Invocation, invocation_of
from konverge.testing.apiserver.admission.patching import patched
from konverge.testing.apiserver.admission.review import (
    CallFailedError,
    Response,
    accepts_v1,
    as_version,
    rejection,
    request_for,
    response_of,
)
from konverge.testing.apiserver.auth.attributes import go_quoted
from konverge.testing.apiserver.objects import Objects
from konverge.testing.apiserver.statuses import StatusError, bad_request, internal

__all__ = ["Dispatcher", "Settle"]

Settle: TypeAlias = Callable[[AdmissionCall, Data], Data]
"""Makes a whole object of what a webhook's patch made: defaults, and pruning where the kind is custom."""

_HARMLESS: Final = ("None", "NoneOnDryRun")


@dataclass(slots=True)
class _Round:
    """Which hooks are to be asked again, as upstream keeps it."""

    again: set[str] = field(default_factory=set)
    invoked: set[str] = field(default_factory=set)
    """Hooks that want to be asked again and were asked before the last change."""
    changed: bool = False

    def note(self, hook: Hook, *, changed: bool) -> None:
        """Note that a hook was asked."""
        if changed:
            self.again |= self.invoked
            self.invoked.clear()
            self.changed = True
        if hook.data.get("reinvocationPolicy") == "IfNeeded":
            self.invoked.add(hook.key)


class Dispatcher:
    """Asks the webhooks that a write concerns."""

    def __init__(self, objects: Objects, webhooks: Webhooks, rng: random.Random, settle: Settle) -> None:
        self._objects = objects
        self._webhooks = webhooks
        self._rng = rng
        self._settle = settle

    async def mutate(self, call: AdmissionCall, hooks: tuple[Hook, ...]) -> AdmissionCall:
        """Return the call with the object that the hooks made of it."""
        state = _Round()
        call = await self._mutate_once(call, hooks, state, again=False)
        if state.changed:
            call = await self._mutate_once(call, hooks, state, again=True)
        return call

    async def _mutate_once(
        self, call: AdmissionCall, hooks: tuple[Hook, ...], state: _Round, *, again: bool
    ) -> AdmissionCall:
        for hook in hooks:
            invocation = invocation_of(hook, call, self._objects)
            if invocation is None or (again and hook.key not in state.again):
                continue
            response = await self._asked(call, invocation)
            if response is None:
                continue
            after = self._patched(call, invocation, response.patch)
            state.note(hook, changed=after is not call)
            call = after
        return call

    async def validate(self, call: AdmissionCall, hooks: tuple[Hook, ...]) -> None:
        """Raise where a hook refuses; where several do, the first that answered counts."""
        invocations = [found for found in (invocation_of(hook, call, self._objects) for hook in hooks) if found]
        if len(invocations) == 1:
            await self._asked(call, invocations[0])
            return
        refusals: list[StatusError] = []

        async def one(invocation: Invocation) -> None:
            try:
                await self._asked(call, invocation)
            except StatusError as error:
                refusals.append(error)

        async with asyncio.TaskGroup() as group:
            for invocation in invocations:
                group.create_task(one(invocation))
        if refusals:
            raise refusals[0]

    # -- one hook ----------------------------------------------------------------------------------------------------

    async def _asked(self, call: AdmissionCall, invocation: Invocation) -> Response | None:
        """Return what a hook answered; None where it was not asked or its failure does not matter."""
        hook = invocation.hook
        uid = str(uuid.UUID(int=self._rng.getrandbits(128), version=4))
        review = request_for(call, invocation.version, uid)
        if not conditions_hold(hook, call, review):
            return None
        if call.dry_run and hook.data.get("sideEffects") not in _HARMLESS:
            raise bad_request(f"admission webhook {go_quoted(hook.name)} does not support dry run")
        try:
            if not accepts_v1(hook.data.get("admissionReviewVersions")):
                words = "webhook does not accept known AdmissionReview versions (v1, v1beta1)"
                raise CallFailedError(hook.name, f"could not create admission objects: {words}")
            answer = await self._webhooks.ask(hook, review)
            response = response_of(answer, uid, hook.name, mutating=hook.kind == "mutating")
        except CallFailedError as error:
            if hook.ignores_failures:
                return None
            raise internal(str(error)) from error
        call.warnings.extend(response.warnings)
        if not response.allowed:
            raise rejection(hook.name, response.status)
        return response

    def _patched(self, call: AdmissionCall, invocation: Invocation, patch: tuple[Data, ...] | None) -> AdmissionCall:
        """Return the call with a patched object; the call itself where nothing changes."""
        if not patch:
            return call
        name = go_quoted(invocation.hook.name)
        if call.object is None:
            words = (
                f"admission webhook {name} attempted to modify the object, which is not supported for this operation"
            )
            raise internal(words)
        shown = as_version(call, call.object, invocation.version)
        after = patched(shown or {}, patch)
        if after == shown:
            return call
        if shown is not None and after.get("apiVersion") == shown.get("apiVersion"):
            after["apiVersion"] = call.object.get("apiVersion")
        return replace(call, object=self._settle(call, after))
