"""Run the benchmarks, all or those named: ``python -m benchmarks startup``.

Every module of this package is one, with a ``main()`` that measures, prints our figure, what it
is held against and their ratio, and returns whether the target was met.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pkgutil import iter_modules

import benchmarks


def names() -> list[str]:
    """Return the names of the benchmarks."""
    found = (module.name for module in iter_modules(benchmarks.__path__))
    return sorted(name for name in found if not name.startswith("_"))


def main(chosen: list[str]) -> int:
    """Run the *chosen* ones, or all; returns 1 if one missed its target, 2 for a wrong name."""
    unknown = set(chosen) - set(names())
    if unknown:
        print(f"No such benchmark: {', '.join(sorted(unknown))}. There are: {', '.join(names())}")
        return 2
    met = [import_module(f"benchmarks.{name}").main() for name in chosen or names()]
    return int(not all(met))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
