"""Machine pools over the shards of Nstance, inside the contract of Cluster API.

wire    the messages and services of an Nstance server
"""

from __future__ import annotations
