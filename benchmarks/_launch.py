"""Starts one program and reports what it took: a process of its own, because it has to be small.

Linux counts the memory of whoever starts a program as the program's own until it is larger
(getrusage(2): ru_maxrss outlives execve), and a benchmark with a lab in it is not small.
"""

from __future__ import annotations

import os
import sys
import time


def main(report: str, command: list[str]) -> None:
    """Run *command* to its end and write four figures into *report*.

    Seconds by the clock, seconds of processor time, KiB of memory at most, exit code.
    """
    began = time.perf_counter()
    pid = os.posix_spawn(command[0], command, os.environ)
    _, status, usage = os.wait4(pid, 0)
    wall = time.perf_counter() - began
    figures = (wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss)
    with open(report, "w", encoding="ascii") as out:
        print(*figures, os.waitstatus_to_exitcode(status), file=out)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
