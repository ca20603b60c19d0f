"""Members whose entries are in another namespace (docs/how-to/other-namespace.md)."""

import konverge as kv

CONFIG_MAP = kv.kind("v1", "ConfigMap")
DIRECTORY = "directory"
"""The namespace of all entries."""


class MemberSpec(kv.Model):
    mail: str


@kv.resource("howto.example.com/v1", conditions=("Ready",))
class Member(kv.CustomResource[MemberSpec, kv.Status]):
    """A member with an entry in the directory."""


class MemberReconciler:
    async def reconcile(self, member: Member, ctx: kv.Context[Member]) -> kv.Outcome:
        labels, annotations = kv.back_reference(member)
        data = {"mail": member.spec.mail}
        entry = CONFIG_MAP.new(f"member-{member.uid}", DIRECTORY, labels=labels, annotations=annotations, data=data)
        await ctx.apply(entry)
        ctx.status.set_condition("Ready", True, "Listed", f"the entry is {entry.name}")
        return kv.Done()

    async def finalize(self, member: Member, ctx: kv.Context[Member]) -> kv.Outcome:
        await ctx.delete(CONFIG_MAP, f"member-{member.uid}", DIRECTORY)
        return kv.Done()


def build(manager: kv.Manager) -> None:
    manager.add(
        kv.Controller.of(Member)
        .finalizer("howto.example.com/directory")
        .watches(CONFIG_MAP, to=kv.by_back_reference(Member), namespaces=[DIRECTORY])
        .needs(kv.Rule("", ("configmaps",), ("create", "patch", "delete"), namespace=DIRECTORY))
        .reconciled_by(MemberReconciler())
    )
