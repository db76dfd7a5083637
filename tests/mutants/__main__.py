"""Applies each mutant to a copy of the tree and runs the test that must fail: `make mutants`.

Prints a line for each mutant. Ends with 1 where a mutant survives its test, does not fit the tree,
or where a named test fails on the unbroken tree.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from tests.mutants.mutant import Mutant, mutants
from tests.mutants.tree import Run, Tree

LINES_OF_OUTPUT = 15
"""Of a run that proves nothing, how many lines are shown."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the mutants that *arguments* choose; returns the exit code."""
    chosen = _chosen(_options().parse_args(arguments))
    if not chosen:
        print("no mutant of that name", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="breakglass-mutants-") as folder:
        wrong = _prove(chosen, Path(folder), _options().parse_args(arguments).jobs)
    rules = {mutant.rule for mutant in chosen}
    print(f"{len(chosen) - wrong} of {len(chosen)} mutants killed, of {len(rules)} rules")
    return 1 if wrong else 0


def _options() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    options.add_argument("names", nargs="*", help="rules (R8) or parts of patch names (all)")
    options.add_argument("--jobs", type=int, default=2, help="mutants at once (2)")
    options.add_argument("--without-brokers", action="store_true", help="leave lab tests out")
    return options


def _chosen(options: argparse.Namespace) -> tuple[Mutant, ...]:
    names = options.names
    return tuple(
        mutant
        for mutant in mutants()
        if not (options.without_brokers and mutant.on_brokers)
        and (not names or any(name == mutant.rule or name in mutant.name for name in names))
    )


def _prove(chosen: Sequence[Mutant], folder: Path, jobs: int) -> int:
    """How many of *chosen* prove nothing; each gets a line on stdout."""
    trees: SimpleQueue[Tree] = SimpleQueue()
    for number in range(jobs):
        trees.put(Tree.copied_to(folder / str(number)))

    def prove(mutant: Mutant) -> bool:
        tree = trees.get()
        try:
            return _killed(mutant, tree)
        finally:
            trees.put(tree)

    with ThreadPoolExecutor(jobs, "mutants") as proving:
        return sum(not killed for killed in proving.map(prove, chosen))


def _killed(mutant: Mutant, tree: Tree) -> bool:
    """Whether the tests of *mutant* pass without its patch and fail under it."""
    began = time.monotonic()
    whole = tree.test(mutant.tests)
    if not whole.passed:
        return _line(mutant, began, "FAILS WITHOUT THE PATCH", whole)
    try:
        with tree.broken_by(mutant):
            broken = tree.test(mutant.tests)
    except ValueError as error:
        return _line(mutant, began, str(error), None)
    if broken.failed:
        return _line(mutant, began, "killed", None)
    word = "SURVIVES" if broken.passed else f"PROVES NOTHING (pytest ended with {broken.code})"
    return _line(mutant, began, word, broken)


def _line(mutant: Mutant, began: float, word: str, run: Run | None) -> bool:
    """Print how *mutant* fared, and the end of a *run* that proves nothing; True where killed."""
    spent = time.monotonic() - began
    print(f"{word:9} {mutant.rule:5} {mutant.name}: {mutant.breaks} ({spent:.0f} s)", flush=True)
    if run is not None:
        for line in run.output.splitlines()[-LINES_OF_OUTPUT:]:
            print(f"    {line}", flush=True)
    return word == "killed"


if __name__ == "__main__":
    sys.exit(main())
