"""How much of a JVM's heap is alive, asked by the way that jcmd goes: HotSpot's attach socket.

A JVM takes what heap it was given before it collects, so its memory alone tells no leak from
plenty. Asking collects first. The tool itself is not in every Java runtime; the socket is.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from pathlib import Path

ANSWER_SECONDS = 30.0
LOOK_SECONDS = 0.05
HISTOGRAM = ("jcmd", "GC.class_histogram", "", "")
BYTES_AT = 2
"""Of the fields in the histogram's last line: ``Total <instances> <bytes>``."""


def live_heap(pid: int) -> float:
    """Megabytes of what is reachable in the JVM *pid*, which collects its heap for that.

    Raises:
        RuntimeError: it does not answer.
    """
    told = _ask(pid).splitlines()
    totals = [line.split() for line in told if line.startswith("Total")]
    if not totals:
        raise RuntimeError(f"the JVM {pid} tells no histogram: {told[:2]}")
    return int(totals[-1][BYTES_AT]) / 1e6


def _ask(pid: int) -> str:
    with socket.socket(socket.AF_UNIX) as asked:
        asked.settimeout(ANSWER_SECONDS)
        asked.connect(str(_listening(pid)))
        asked.sendall(b"1\0" + b"".join(text.encode() + b"\0" for text in HISTOGRAM))
        pieces = iter(lambda: asked.recv(2**16), b"")
        return b"".join(pieces).decode(errors="replace")


def _listening(pid: int) -> Path:
    """The socket of the JVM, which opens it when it finds the file and is given a SIGQUIT."""
    where = Path(f"/tmp/.java_pid{pid}")  # noqa: S108 - HotSpot's own place
    if where.is_socket():
        return where
    wanted = Path(f"/proc/{pid}/cwd/.attach_pid{pid}")
    wanted.touch()
    try:
        os.kill(pid, signal.SIGQUIT)
        give_up = time.monotonic() + ANSWER_SECONDS
        while not where.is_socket():
            if time.monotonic() > give_up:
                raise RuntimeError(f"the JVM {pid} opens no socket")
            time.sleep(LOOK_SECONDS)
    finally:
        wanted.unlink(missing_ok=True)
    return where
