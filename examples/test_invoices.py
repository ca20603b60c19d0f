"""A scenario with its expected result: `pytest` runs it once, `pytest --lab=quick` again under every fault."""

import pytest
from invoices import Invoice, InvoiceSpec, build

import konverge as kv
from konverge_testing import Lab


@pytest.mark.scenario
async def test_an_invoice_is_issued(lab: Lab) -> None:
    await lab.start(build)
    await lab.create(Invoice.new("march", spec=InvoiceSpec(customer="Jane")))
    await lab.until(Invoice, "march", kv.is_true("Issued"))
