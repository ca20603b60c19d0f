"""Amounts as tests write them."""

from collections.abc import Mapping
from typing import Any

from konverge import quantities
from konverge.reconcilers.quota.amounts import Amounts


def read(values: Mapping[str, Any] | None) -> Amounts:
    """Read a ResourceList as billionths; raises ValueError for an invalid quantity."""
    return {name: quantity.billionths for name, quantity in quantities.read(values).items()}
