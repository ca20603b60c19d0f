"""The reconciler: it applies the children, and reports the status."""

import konverge as kv
from website.children import DEPLOYMENT, INGRESS, PAGE, SERVICE, children_of
from website.decide import decide
from website.model import Website


class Reconciler:
    async def reconcile(self, site: Website, ctx: kv.Context[Website]) -> kv.Outcome:
        """Bring the cluster to the spec; called after each change of the Website and of its children."""
        applied = await ctx.apply_children(children_of(site))
        deployment = applied.find(DEPLOYMENT)
        assert deployment is not None
        return await ctx.execute(decide(site, deployment))


CONTROLLER = (
    kv.Controller.of(Website).owns(DEPLOYMENT).owns(SERVICE).owns(INGRESS).owns(PAGE).reconciled_by(Reconciler())
)
