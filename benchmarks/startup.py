"""How fast the front door opens: whole processes, against the budget of 0.3 s."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

BUDGET = 0.3
"""Seconds."""
RUNS = 15
CASES = {
    "breakglass --version": (["--version"], {}),
    "breakglass --help": (["--help"], {}),
    "completion of a command": (
        [],
        {"_BREAKGLASS_COMPLETE": "complete_bash", "COMP_WORDS": "breakglass ", "COMP_CWORD": "1"},
    ),
}


def seconds(arguments: list[str], environment: dict[str, str]) -> float:
    """Return the wall time of one run of `breakglass` with *arguments*."""
    program = Path(sys.executable).with_name("breakglass")
    started = time.perf_counter()
    subprocess.run(
        [program, *arguments], check=True, capture_output=True, env={**os.environ, **environment}
    )
    return time.perf_counter() - started


def main() -> bool:
    """Print the median of each case; returns whether all are within the budget."""
    medians = {
        name: statistics.median(seconds(*case) for _ in range(RUNS)) for name, case in CASES.items()
    }
    for name, median in medians.items():
        print(f"{name:<26} {median:.3f} s   budget {BUDGET} s   ratio {median / BUDGET:.2f}")
    return max(medians.values()) <= BUDGET
