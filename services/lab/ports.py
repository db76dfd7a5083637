"""Hands out ports to labs so that no other process takes a node's port while the node is down.

The ports of all labs of a user come from one counter: a port that a killed broker had comes up
again only after all other ports.
"""

from __future__ import annotations

import os
import random
import socket
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from platformdirs import user_cache_path

from breakglass.services.errors import LabError
from breakglass.services.file_lock import open_lock_file, unlock, wait_for_lock
from breakglass.services.lab.layout import LOOPBACK

COUNTER = "lab-ports"
LOWEST = 15000
EPHEMERAL_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
USUAL_EPHEMERAL_START = 32768


def free_ports(count: int, *, besides: Collection[int] = ()) -> list[int]:
    """*count* different ports that nothing listens on, none of them in *besides*.

    They lie below the ports that the system hands to outgoing connections: otherwise a
    client's socket could sit on the port of a killed broker when it is started again.

    Raises:
        LabError: too few ports are free.
    """
    span = _ephemeral_start() - LOWEST
    chosen: list[int] = []
    with _counter() as turns:
        for turn in turns(span):
            port = LOWEST + turn
            if port not in besides and _free(port):
                chosen.append(port)
                if len(chosen) == count:
                    return chosen
    raise LabError(
        f"Fewer than {count} ports from {LOWEST} to {LOWEST + span - 1} are free: free some."
    )


class _Turns:
    """Numbers below a span, each once, from the one after the last that was handed out."""

    def __init__(self, first: int) -> None:
        self.next = first

    def __call__(self, span: int) -> Iterator[int]:
        for _ in range(span):
            turn = self.next % span
            self.next = turn + 1
            yield turn


@contextmanager
def _counter() -> Iterator[_Turns]:
    """The counter that all labs of this user share; a random one where it cannot be kept."""
    somewhere = random.randrange(USUAL_EPHEMERAL_START)
    try:
        folder = user_cache_path("breakglass")
        folder.mkdir(parents=True, exist_ok=True)
        file = open_lock_file(folder / COUNTER)
    except OSError:
        yield _Turns(somewhere)
        return
    try:
        wait_for_lock(file)
        kept = os.pread(file, 20, 0)
        turns = _Turns(int(kept) if kept.isdigit() else somewhere)
        yield turns
        os.ftruncate(file, 0)
        os.pwrite(file, str(turns.next).encode("ascii"), 0)
    finally:
        unlock(file)


def _ephemeral_start() -> int:
    try:
        start = int(EPHEMERAL_RANGE.read_text(encoding="ascii").split()[0])
    except (OSError, ValueError, IndexError):
        return USUAL_EPHEMERAL_START
    return start if start > LOWEST + 1000 else USUAL_EPHEMERAL_START


def _free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True
