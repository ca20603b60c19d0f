"""A double of Nstance servers: one for each shard, with groups, instances, drains, streams, certificates and faults.

It needs the extra `konverge[machines]`. In memory it runs in virtual time; on the loopback it speaks TLS 1.3 with Ed25519
certificates.

>>> from random import Random
>>> world = NstanceWorld(random=Random(1))
>>> shard = world.add_shard("us-west-2a")
>>> shard.groups.static["workers"] = GroupSpec(template="std", size=2)
>>> [one.key for one in shard.groups.all()]
['workers']
"""

from __future__ import annotations

from konverge_testing.nstance.faults import CallFault, Network, ShardFaults
from konverge_testing.nstance.groups import GroupSpec, Template
from konverge_testing.nstance.instances import Instance
from konverge_testing.nstance.services import Call, CallOutcome
from konverge_testing.nstance.world import NstanceShard, NstanceWorld, ShardAddress

__all__ = [
    "Call",
    "CallFault",
    "CallOutcome",
    "GroupSpec",
    "Instance",
    "Network",
    "NstanceShard",
    "NstanceWorld",
    "ShardAddress",
    "ShardFaults",
    "Template",
]
