"""The ledger against a model: any interleaving of writes, responses and checks of the barrier."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from konverge.client import Ledger, PendingWrite, WriteState
from konverge.kinds import kind

SECRET = kind("v1", "Secret")
WRITERS = ("one", "two")
NAMES = ("a", "b")

writers = st.sampled_from(WRITERS)
names = st.sampled_from(NAMES)


class LedgerMachine(RuleBasedStateMachine):
    """The server assigns growing versions; responses arrive in any order. The model remembers everything."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = Ledger()
        self.version = 0
        self.open: list[tuple[PendingWrite, str, str, int]] = []
        self.begun = 0
        self.done: dict[tuple[str, str], int] = {}  # highest version in a response, not seen since
        self.lost: dict[tuple[str, str], int] = {}  # newest write whose response was lost
        self.answered: dict[tuple[str, str], int] = {}  # newest write with a response, not seen since

    @rule(writer=writers, name=names)
    def begin(self, writer: str, name: str) -> None:
        self.begun += 1
        self.open.append((self.ledger.begin(writer, SECRET, "web", name), writer, name, self.begun))

    def _pick(self, index: int) -> tuple[PendingWrite, tuple[str, str], int]:
        pending, writer, name, number = self.open.pop(index % len(self.open))
        return pending, (writer, name), number

    @precondition(lambda self: self.open)
    @rule(index=st.integers(0, 20))
    def settle(self, index: int) -> None:
        pending, target, number = self._pick(index)
        self.version += 1
        pending.settle(str(self.version), "uid")
        self.done[target] = self.version
        # Of two responses with the same uid the higher version counts, and the number of its write is compared.
        self.answered[target] = number
        if self.lost.get(target, 0) < number:
            self.lost.pop(target, None)

    @precondition(lambda self: self.open)
    @rule(index=st.integers(0, 20))
    def fail(self, index: int) -> None:
        pending, _, _ = self._pick(index)
        pending.failed()

    @precondition(lambda self: self.open)
    @rule(index=st.integers(0, 20))
    def lose(self, index: int) -> None:
        pending, target, number = self._pick(index)
        pending.unknown()
        if number > self.answered.get(target, 0) and number > self.lost.get(target, 0):
            self.lost[target] = number

    @rule(writer=writers)
    def look(self, writer: str) -> None:
        """Mark every pending write as seen, as the barrier does."""
        for write in self.ledger.pending(writer):
            self.ledger.seen(writer, write)
            target = (writer, write.name)
            if write.state is WriteState.UNKNOWN:
                del self.lost[target]
            elif write.state is WriteState.DONE:
                del self.done[target], self.answered[target]

    @rule(writer=writers)
    def forget(self, writer: str) -> None:
        if any(owner == writer for _, owner, _, _ in self.open):
            return  # the unit tests cover writes in flight
        self.ledger.forget(writer)
        for held in (self.done, self.lost, self.answered):
            for target in [target for target in held if target[0] == writer]:
                del held[target]

    @invariant()
    def no_write_is_lost_from_sight(self) -> None:
        flying = {(writer, name) for _, writer, name, _ in self.open}
        for writer in WRITERS:
            pending = {write.name: write for write in self.ledger.pending(writer)}
            assert len(pending) == len(self.ledger.pending(writer)), "one write per object"
            for name in NAMES:
                target = (writer, name)
                found = pending.get(name)
                if target in flying:
                    assert found is not None
                    assert found.state is WriteState.IN_FLIGHT
                elif target in self.lost:
                    assert found is not None
                    assert found.state is WriteState.UNKNOWN
                elif target in self.done:
                    assert found is not None
                    assert (found.state, found.version) == (WriteState.DONE, str(self.done[target]))
                else:
                    assert found is None

    @invariant()
    def nothing_is_held_for_nobody(self) -> None:
        found = self.ledger.statistics()
        assert found.in_flight == len(self.open)
        assert found.pending == sum(len(self.ledger.pending(writer)) for writer in WRITERS)
        assert found.writers == sum(1 for writer in WRITERS if self.ledger.pending(writer))


TestLedger = LedgerMachine.TestCase
