"""Readings of /proc: CPU and memory of process trees, the load of the machine, and its description."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROC = Path("/proc")
TICKS = os.sysconf("SC_CLK_TCK")
MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Memory:
    """Resident memory of a process tree, in MiB: now, and at its highest (summed over the processes that live)."""

    now: float
    peak: float


def parse_cpu(stat: str) -> float:
    """CPU seconds of a process and of its ended children, from /proc/<pid>/stat."""
    fields = stat[stat.rindex(")") + 2 :].split()
    return sum(map(int, fields[11:15])) / TICKS


def parse_busy(stat: str) -> float:
    """CPU seconds that the whole machine was not idle, from /proc/stat, including time that a hypervisor took."""
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, stat.split("\n", 1)[0].split()[1:9])
    return (user + nice + system + irq + softirq + steal) / TICKS


def tree(root: int) -> list[int]:
    """The process and its living descendants; empty if it has ended."""
    if not (PROC / str(root)).exists():
        return []
    return [root, *(pid for child in _children(root) for pid in tree(child))]


def _children(pid: int) -> Iterator[int]:
    for task in _glob(PROC / str(pid) / "task"):
        yield from map(int, _read(task / "children").split())


def _glob(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def busy_seconds() -> float:
    """CPU seconds that the machine was busy since it started."""
    return parse_busy((PROC / "stat").read_text())


def cpu_seconds(pids: Iterable[int]) -> float:
    """CPU seconds of these processes."""
    return sum(parse_cpu(stat) for pid in pids if (stat := _read(PROC / str(pid) / "stat")))


def memory(pids: Iterable[int]) -> Memory:
    """Resident memory of these processes."""
    now = peak = 0.0
    for pid in pids:
        status = _read(PROC / str(pid) / "status")
        now += _kib(status, "VmRSS") / 1024
        peak += _kib(status, "VmHWM") / 1024
    return Memory(now, peak)


def _kib(status: str, name: str) -> float:
    match = re.search(rf"^{name}:\s+(\d+) kB$", status, re.MULTILINE)
    return float(match[1]) if match else 0.0


def describe() -> dict[str, Any]:
    """The description of the machine, for readers of the figures."""
    cpu = re.search(r"^model name\s*:\s*(.+)$", _read(PROC / "cpuinfo"), re.MULTILINE)
    total = re.search(r"^MemTotal:\s+(\d+) kB$", _read(PROC / "meminfo"), re.MULTILINE)
    return {
        "cpu": cpu[1] if cpu else platform.machine(),
        "cpus": os.cpu_count(),
        "memory_gib": round(int(total[1]) / 1024 / 1024, 1) if total else None,
        "kernel": platform.release(),
        "python": platform.python_version(),
        "governor": _read(Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")).strip() or "unknown",
    }
