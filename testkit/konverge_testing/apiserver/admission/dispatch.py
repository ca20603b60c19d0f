"""Calls webhooks: the mutating webhooks one after another, the validating webhooks at the same time.

Guarantees
- A mutating hook gets the object as the hooks before it changed it. A hook with reinvocationPolicy IfNeeded is called once more, after the
  built-in plugins, if the object has changed since. A patched object is defaulted before the next hook is called.
- If a hook cannot be called, the write is refused with a 500, or admitted (failurePolicy Ignore). A hook that denies the write refuses it
  with its own status. In a dry run, a hook with side effects refuses the write.

The rules are from k8s.io/apiserver `pkg/admission/plugin/webhook/{mutating,validating}/dispatcher.go`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from konverge_testing.apiserver.admission.call import AdmissionCall, Data
from konverge_testing.apiserver.admission.calling import Webhooks
from konverge_testing.apiserver.admission.conditions import Authorize, conditions_hold
from konverge_testing.apiserver.admission.hooks import Hook, Invocation, invocation_of
from konverge_testing.apiserver.admission.patching import check_identity, patched
from konverge_testing.apiserver.admission.review import (
    CallFailedError,
    WebhookResponse,
    accepts_v1,
    as_own,
    as_seen,
    rejection,
    request_for,
    response_of,
)
from konverge_testing.apiserver.golang import quoted
from konverge_testing.apiserver.objects import Objects
from konverge_testing.apiserver.statuses import StatusError, bad_request, internal

__all__ = ["Dispatcher", "Settle"]

Settle: TypeAlias = Callable[[AdmissionCall, Data], Data]
"""Completes a patched object: checks its types, prunes and defaults it."""

_HARMLESS: Final = ("None", "NoneOnDryRun")


@dataclass(slots=True)
class _Round:
    """The hooks to reinvoke, tracked as upstream does."""

    again: set[str] = field(default_factory=set)
    invoked: set[str] = field(default_factory=set)
    """Hooks with reinvocationPolicy IfNeeded that were called before the last change."""
    changed: bool = False

    def note(self, hook: Hook, *, changed: bool) -> None:
        """Record the call of a hook."""
        if changed:
            self.repeat()
            self.changed = True
        if hook.data.get("reinvocationPolicy") == "IfNeeded":
            self.invoked.add(hook.key)

    def repeat(self) -> None:
        """Mark the hooks for reinvocation that were called before a change."""
        self.again |= self.invoked
        self.invoked.clear()


class Dispatcher:
    """Calls the webhooks that a write concerns."""

    def __init__(
        self,
        objects: Objects,
        webhooks: Webhooks,
        uid: Callable[[], str],
        settle: Settle,
        registered: Callable[[str, str], bool],
        authorize: Authorize,
    ) -> None:
        self._objects = objects
        self._webhooks = webhooks
        self._uid = uid
        self._settle = settle
        self._registered = registered
        self._authorize = authorize

    async def mutate(
        self, call: AdmissionCall, hooks: tuple[Hook, ...], built_in: Callable[[AdmissionCall], AdmissionCall]
    ) -> AdmissionCall:
        """Return the call with the object that the hooks changed; after a change, the built-in plugins run again."""
        state = _Round()
        call = await self._mutate_once(call, hooks, state, again=False)
        if not state.changed:
            return call
        filled = built_in(call)
        if filled.object != call.object:
            state.repeat()
        return await self._mutate_once(filled, hooks, state, again=True)

    async def _mutate_once(
        self, call: AdmissionCall, hooks: tuple[Hook, ...], state: _Round, *, again: bool
    ) -> AdmissionCall:
        for hook in hooks:
            invocation = invocation_of(hook, call, self._objects)
            if invocation is None or (again and hook.key not in state.again):
                continue
            review = self._review(call, invocation)
            response = None if review is None else await self._call_webhook(call, invocation.hook, review)
            if response is None:
                continue
            after = self._patched(call, invocation, response.patch)
            state.note(hook, changed=after is not call)
            call = after
        return call

    async def validate(self, call: AdmissionCall, hooks: tuple[Hook, ...]) -> None:
        """Raise if a hook refuses; of several refusals, the first response counts."""
        asked: list[tuple[Hook, Data]] = []
        for hook in hooks:
            invocation = invocation_of(hook, call, self._objects)
            review = None if invocation is None else self._review(call, invocation)
            if review is not None:
                asked.append((hook, review))
        if len(asked) == 1:
            await self._call_webhook(call, *asked[0])
            return
        refusals: list[StatusError] = []

        async def one(hook: Hook, review: Data) -> None:
            try:
                await self._call_webhook(call, hook, review)
            except StatusError as error:
                refusals.append(error)

        async with asyncio.TaskGroup() as group:
            for hook, review in asked:
                group.create_task(one(hook, review))
        if refusals:
            raise refusals[0]

    # -- one hook ----------------------------------------------------------------------------------------------------

    def _review(self, call: AdmissionCall, invocation: Invocation) -> Data | None:
        """Return the review for a hook, or None if its conditions exclude the call."""
        review = request_for(call, invocation.seen, self._uid())
        return review if conditions_hold(invocation.hook, call, review, self._authorize) else None

    async def _call_webhook(self, call: AdmissionCall, hook: Hook, review: Data) -> WebhookResponse | None:
        """Return the response of a hook; None if the failure policy ignores a failed call."""
        if call.dry_run and hook.data.get("sideEffects") not in _HARMLESS:
            raise bad_request(f"admission webhook {quoted(hook.name)} does not support dry run")
        try:
            if not accepts_v1(hook.data.get("admissionReviewVersions")):
                words = "webhook does not accept known AdmissionReview versions (v1, v1beta1)"
                raise CallFailedError(hook.name, f"could not create admission objects: {words}")
            answer = await self._webhooks.ask(hook, review)
            response = response_of(answer, review["request"]["uid"], hook.name, mutating=hook.kind == "mutating")
        except CallFailedError as error:
            if hook.ignores_failures:
                return None
            raise internal(str(error)) from error
        # A reinvoked hook repeats its warnings; the client gets each warning once.
        call.warnings.extend(text for text in response.warnings if text not in call.warnings)
        if not response.allowed:
            raise rejection(hook.name, response.status)
        return response

    def _patched(self, call: AdmissionCall, invocation: Invocation, patch: tuple[Data, ...] | None) -> AdmissionCall:
        """Return the call with a patched object; the call itself if nothing changes."""
        if not patch:
            return call
        name = quoted(invocation.hook.name)
        if call.object is None:
            words = (
                f"admission webhook {name} attempted to modify the object, which is not supported for this operation"
            )
            raise internal(words)
        shown = as_seen(call, call.object, invocation.seen) or {}
        after = patched(shown, patch)
        if after == shown:
            return call
        check_identity(call, after, shown, self._registered)
        return replace(call, object=self._settle(call, as_own(call, after, invocation.seen)))
