"""Runs breakglass and kills its own process, by SIGKILL, right after a line of its journal.

``python -m tests.lab.recover.elections.killed_at KIND STEP NUMBER ARGUMENTS...``: after the
NUMBER-th entry of that kind (and step, ``-`` for any) is on disk. What it announces is never sent.
"""

import os
import signal
import sys
from typing import Any

from breakglass.services.guard.journal import Journal


def main(kind: str, step: str, number: str, *arguments: str) -> None:
    """Run the program with *arguments*; it must not come to its end."""
    left = int(number)
    record = Journal.record

    def recorded(self: Journal, written: Any, items: Any = None, **payload: Any) -> int:
        nonlocal left
        entry = record(self, written, items, **payload)
        left -= written == kind and step in ("-", payload.get("step"))
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return entry

    setattr(Journal, "record", recorded)  # noqa: B010 -- a method is replaced
    sys.argv = ["breakglass", *arguments]
    from breakglass.console.cli import main as breakglass

    breakglass()


if __name__ == "__main__":
    main(*sys.argv[1:])
