"""Invoices, each with a numbered document. `build` has a classic bug that the lab finds; `build_mended` does not (testkit/docs/lab.md)."""

import konverge as kv

DOCUMENT = kv.kind("v1", "ConfigMap")


class InvoiceSpec(kv.Model):
    customer: str


class InvoiceStatus(kv.Status):
    document: str | None = None


@kv.resource("example.com/v1", conditions=("Issued",))
class Invoice(kv.CustomResource[InvoiceSpec, InvoiceStatus]):
    """An invoice that a customer is to get, once."""


class Forgetful:
    async def reconcile(self, invoice: Invoice, ctx: kv.Context[Invoice]) -> kv.Outcome:
        name = invoice.status.document
        if name is None:  # the bug: the next number is used first and written down afterwards
            name = f"document-{len(ctx.cache(DOCUMENT).keys(invoice.namespace)) + 1}"
        await ctx.own(DOCUMENT.new(name, invoice.namespace, data={"customer": invoice.spec.customer}))
        ctx.status.draft.document = name
        ctx.status.set_condition("Issued", True, "DocumentMade", f"it is {name}")
        return kv.Done()


class Mended:
    async def reconcile(self, invoice: Invoice, ctx: kv.Context[Invoice]) -> kv.Outcome:
        name = f"document-of-{invoice.name}"  # every reconcile computes the same name
        await ctx.own(DOCUMENT.new(name, invoice.namespace, data={"customer": invoice.spec.customer}))
        ctx.status.draft.document = name
        ctx.status.set_condition("Issued", True, "DocumentMade", f"it is {name}")
        return kv.Done()


def build(manager: kv.Manager) -> None:
    manager.add(kv.Controller.of(Invoice).owns(DOCUMENT).reconciled_by(Forgetful()))


def build_mended(manager: kv.Manager) -> None:
    manager.add(kv.Controller.of(Invoice).owns(DOCUMENT).reconciled_by(Mended()))
