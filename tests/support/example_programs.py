"""Programs of the examples' folder as processes, run and ended as a person would."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import backup_operator

EXAMPLES = Path(backup_operator.__file__).parent


@asynccontextmanager
async def program(*arguments: str, executable: str = sys.executable) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a program of the examples' folder as a person would, and end it with Ctrl-C."""
    process = await asyncio.create_subprocess_exec(
        executable, *arguments, cwd=EXAMPLES, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGINT)
        async with asyncio.timeout(40):
            output, _ = await process.communicate()
        print(output.decode())
