"""Run the benchmarks, all or those named: ``python -m benchmarks first-frame keys``.

Every module of this package is one, but for those whose names begin with an underscore: with a
``main(options)`` that measures, prints our figure, what it is held against and their ratio, and
returns whether the target was met.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import benchmarks
from benchmarks._measure import Options


def names() -> list[str]:
    """Return the names of the benchmarks."""
    found = (module.name for module in iter_modules(benchmarks.__path__))
    return sorted(name.replace("_", "-") for name in found if not name.startswith("_"))


def main(arguments: list[str]) -> int:
    """Run the benchmarks named, or all; returns 1 if one missed its target."""
    parser = ArgumentParser(prog="python -m benchmarks", description="Measure ours and the peer's.")
    parser.add_argument("name", nargs="*", help=", ".join(names()))
    parser.add_argument("--partitions", type=int, help="fewer, or more, than the target names")
    parser.add_argument("--runs", type=int, help="how often each program runs")
    parser.add_argument("--records", type=int, help="fewer, or more, for what copies records")
    given = parser.parse_args(arguments)
    if unknown := set(given.name) - set(names()):
        parser.error(
            f"no such benchmark: {', '.join(sorted(unknown))}; there is {', '.join(names())}"
        )
    options = Options(given.partitions, given.runs, given.records)
    met = [_module(name).main(options) for name in given.name or names()]
    return int(not all(met))


def _module(name: str) -> Any:
    return import_module(f"benchmarks.{name.replace('-', '_')}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
