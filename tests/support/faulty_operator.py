"""An operator with two bugs that show only after a kill at the right write; the harness has to find both."""

from __future__ import annotations

import konverge as kv

CONFIG_MAP = kv.kind("v1", "ConfigMap")
DONE = "tests.konverge.dev/done"


class MemoSpec(kv.Model):
    mistake: str


@kv.resource("tests.konverge.dev/v1", conditions=("Ready",))
class Memo(kv.CustomResource[MemoSpec, kv.Status]):
    """Something that is to be kept in a ConfigMap."""


class Faulty:
    """Keeps state in memory, where a crash loses it, or records work before it is done."""

    def __init__(self) -> None:
        self._begun: set[str] = set()

    async def reconcile(self, memo: Memo, ctx: kv.Context[Memo]) -> kv.Outcome:
        if memo.spec.mistake == "forgetful":
            await self._note_first(memo, ctx)
        else:
            await self._begin_anew(memo, ctx)
        ctx.status.set_condition("Ready", True, "Kept")
        return kv.Done()

    async def _note_first(self, memo: Memo, ctx: kv.Context[Memo]) -> None:
        """Records the work as done, and then does it."""
        if DONE not in memo.annotations:
            await ctx.patch(Memo, memo.name, memo.namespace, patch={"metadata": {"annotations": {DONE: "true"}}})
            await ctx.own(CONFIG_MAP.new(memo.name))

    async def _begin_anew(self, memo: Memo, ctx: kv.Context[Memo]) -> None:
        """Deletes the child of an earlier process, as if it were garbage."""
        if memo.name not in self._begun:
            await ctx.delete(CONFIG_MAP, memo.name, memo.namespace)
            self._begun.add(memo.name)
            raise kv.RetryAfter(0.1, "cleaning up")
        await ctx.own(CONFIG_MAP.new(memo.name))


def build(manager: kv.Manager) -> None:
    notes = kv.Rule("tests.konverge.dev", ("memos",), ("patch",))
    manager.add(kv.Controller.of(Memo).owns(CONFIG_MAP).needs(notes).reconciled_by(Faulty()))
