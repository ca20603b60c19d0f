"""Sharding without a coordinator: each replica reconciles its own objects.

    settings.py    mode, names and times
    hashing.py     which live member should own an object: rendezvous hashing. Pure
    stamp.py       the annotation on an object with its owner and the owner's epoch. Pure
    members.py     the members of the ring, judged by what this replica saw of their Leases. Pure
    decision.py    keep, claim, clear or wait, from one object's stamp and the members. Pure
    ordinal.py     the other mode: by the ordinals of a StatefulSet, without the guarantees below
    gate.py        the gate of a controller: which objects it watches and reconciles
    part.py        the ring as a part of a manager

Guarantees: at most one member reconciles an object at a time, as long as no member's clock runs more than twice as fast as another
member's clock. A member takes an object by a compare-and-swap of the stamp, with a greater epoch than any before. It takes only an
object without an owner, an object that its owner gave back, and an object of a dead or released member. Different views of the
membership delay a hand-over, but are safe. A newcomer owns nothing before it has judged every other member, so no object waits for a
replica that has just been restarted.
"""
