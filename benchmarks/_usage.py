"""Processor time and memory of a session of ours by who takes it: driver, JVM, Python workers."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress

import psutil

ROLES = ("driver", "JVM", "workers")
SAMPLE_SECONDS = 0.25


def roles(driver: psutil.Process) -> Iterator[tuple[str, psutil.Process]]:
    """The process *driver* and those it started, each with its role."""
    yield "driver", driver
    for child in driver.children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            yield "JVM" if child.name() == "java" else "workers", child


def spent(driver: psutil.Process) -> dict[str, float]:
    """Seconds of processor time by role, of ended workers too."""
    seconds = dict.fromkeys(ROLES, 0.0)
    for role, one in roles(driver):
        with suppress(psutil.NoSuchProcess):
            times = one.cpu_times()
            seconds[role] += times.user + times.system
            if role == "workers":
                seconds[role] += times.children_user + times.children_system
    return seconds


def held(driver: psutil.Process) -> dict[str, float]:
    """Megabytes of memory by role, mapped files left out; what processes share is split."""
    megabytes = dict.fromkeys(ROLES, 0.0)
    for role, one in roles(driver):
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            megabytes[role] += anonymous(one.pid)
    return megabytes


def anonymous(pid: int) -> float:
    """Megabytes of a process that lie in no file. Raises psutil.NoSuchProcess."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
            lines = dict(line.split(":", 1) for line in file.readlines()[1:])
    except OSError:
        raise psutil.NoSuchProcess(pid) from None
    return int(lines["Pss_Anon"].split()[0]) * 1024 / 1e6


class Peak:
    """The most that each role held while the block ran."""

    def __init__(self, driver: psutil.Process) -> None:
        self.megabytes: Mapping[str, float] = dict.fromkeys(ROLES, 0.0)
        self._driver = driver
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="memory", daemon=True)

    def __enter__(self) -> Peak:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(SAMPLE_SECONDS):
            now = held(self._driver)
            self.megabytes = {role: max(self.megabytes[role], now[role]) for role in ROLES}
