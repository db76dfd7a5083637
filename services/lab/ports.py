"""Free loopback ports that stay free while the node that owns them is down."""

from __future__ import annotations

import random
import socket
from pathlib import Path

from breakglass.services.errors import LabError
from breakglass.services.lab.layout import LOOPBACK

LOWEST = 15000
EPHEMERAL_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
USUAL_EPHEMERAL_START = 32768
ATTEMPTS_PER_PORT = 50


def free_ports(count: int) -> list[int]:
    """*count* different ports that nothing listens on.

    They lie below the ports that the system hands to outgoing connections: otherwise a
    client's socket could sit on the port of a killed broker when it is started again.

    Raises:
        LabError: too few ports are free.
    """
    highest = _ephemeral_start() - 1
    chosen: list[int] = []
    for _ in range(count * ATTEMPTS_PER_PORT):
        port = random.randint(LOWEST, highest)
        if port not in chosen and _free(port):
            chosen.append(port)
            if len(chosen) == count:
                return chosen
    raise LabError(f"Fewer than {count} ports between {LOWEST} and {highest} are free: free some.")


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
