"""How fast the front door opens: whole processes, against the budget of 0.3 s."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks._measure import Options, Program, in_turn, median_wall, meets, ours, print_load

BUDGET = 0.3
"""Seconds."""
RUNS = 15
COMPLETION = {
    "_BREAKGLASS_COMPLETE": "complete_bash",
    "COMP_WORDS": "breakglass ",
    "COMP_CWORD": "1",
}


def main(options: Options) -> bool:
    """Print the median of each case; returns whether all are within the budget."""
    print_load()
    with TemporaryDirectory(prefix="breakglass-bench-") as folder:
        place = Path(folder)
        cases = (
            _case("breakglass --version", place, "--version"),
            _case("breakglass --help", place, "--help"),
            _case("completion of a command", place, environment=COMPLETION),
        )
        measured = in_turn(options.runs or RUNS, cases, place)
    met = [
        meets(case.name, median_wall(runs), BUDGET, " s")
        for case, runs in zip(cases, measured, strict=True)
    ]
    return all(met)


def _case(
    name: str, folder: Path, *arguments: str, environment: Mapping[str, str] | None = None
) -> Program:
    program = ours("breakglass", folder, *arguments)
    known = {**(program.environment or {}), **(environment or {})}
    return replace(program, name=name, environment=known)
