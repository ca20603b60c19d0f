"""The test of an operator with parts beside its controller."""

import pytest
from stock_operator import Part, PartSpec, Stock, build

import konverge as kv
from konverge_testing import Lab


async def test_the_page_shows_the_levels_of_the_warehouse(lab: Lab) -> None:
    stocks: list[Stock] = []
    await lab.start(lambda manager: stocks.append(build(manager)))
    await lab.create(Part.new("m8", spec=PartSpec(part="screw")))
    await lab.until(Part, "m8", kv.is_true("Ready"))
    await lab.settled()
    [stock] = stocks
    warehouse = stock.warehouse.value
    assert (stock.levels(), stock.problem()) == ({"m8": 7}, "")
    await lab.stop()
    assert warehouse.closed
    with pytest.raises(kv.KonvergeError, match="the warehouse exists only while its manager runs"):
        stock.warehouse.value  # noqa: B018  # the read raises
