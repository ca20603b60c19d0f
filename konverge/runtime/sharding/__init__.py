"""Sharding without a coordinator: several replicas, each of which reconciles its own objects.

    settings.py    mode, names and times
    hashing.py     which live member should own an object: rendezvous hashing. Pure
    stamp.py       the annotation on an object with its owner and the owner's epoch. Pure
    members.py     the members of the ring, judged by what this replica saw of their Leases. Pure
    decision.py    keep, claim, clear or wait, from one object's stamp and the members. Pure
    ordinal.py     the other mode: by the ordinals of a StatefulSet, without the guarantees below
    gate.py        the gate of a controller: which objects it watches and reconciles
    part.py        the ring as a part of a manager

Guarantees: at most one member reconciles an object at a time, as long as the clock of none runs more than twice as fast as another's. A
member takes an object by a compare-and-swap of its stamp, with a greater epoch than any before; it takes only what has no owner, what its
owner gave back, and what belongs to a member that is dead or has released its Lease. Members that see different memberships are safe, and
only late. A newcomer owns nothing before it has judged every other member, so no object waits for a replica that has just been restarted.
"""
