"""The delay of an idle process: the share of a contestant's stalls that the machine causes.

Run as a program it waits 10 ms at a time, like contestants that measure their loops, and remembers its longest delay. It reads two words
from standard input: "begin" resets the delay, and "end" prints it in milliseconds. It ends with its input.
"""

from __future__ import annotations

import asyncio
import os
import select
import sys
from dataclasses import dataclass

from konverge.clock import monotonic

PAUSE = 0.01


@dataclass(frozen=True, slots=True)
class Bystander:
    """The program as the harness sees it; both of its pipes are open."""

    process: asyncio.subprocess.Process

    def begin(self) -> None:
        """Reset the delay."""
        self._say(b"begin\n")

    async def longest(self) -> float:
        """The milliseconds of its longest delay since `begin`."""
        self._say(b"end\n")
        assert self.process.stdout is not None
        return float(await self.process.stdout.readline())

    def _say(self, word: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(word)


def stand_by(words: int, answers: int) -> None:
    """Wait, and respond to words, until the descriptor `words` is at its end."""
    longest, last = 0.0, monotonic()
    while True:
        asked, _, _ = select.select([words], [], [], PAUSE)
        longest = max(longest, (monotonic() - last - PAUSE) * 1000)
        if asked:
            message = os.read(words, 4096).split()
            if not message:
                return
            for word in message:
                if word == b"end":
                    os.write(answers, f"{longest:.3f}\n".encode())
                longest = 0.0
        last = monotonic()


if __name__ == "__main__":
    stand_by(sys.stdin.fileno(), sys.stdout.fileno())
