"""Leader election: which of several replicas may write.

    settings.py    names and times
    record.py      the record in the spec of a Lease, as client-go writes it. Pure
    candidate.py   one candidate's view of the Lease, and its next step. Pure
    fence.py       the deadline after which no write leaves this process
    elector.py     the shell: reads, watches, takes, renews and releases the Lease
    rights.py      its RBAC rules. Pure
    leading.py     leading and standing by, in terms
    part.py        the election as a part of a manager

Guarantees: two candidates with this code never both write, as long as the clock of neither runs more than 1.5 times as fast as the
other's. The offset of clocks does not matter, since no candidate compares a time of the record with its own clock.
"""
