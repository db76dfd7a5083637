"""One mutant: a patch that breaks a rule, with a header that names the rule and its test."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "rules"
HEADER = re.compile(r"^(Rule|Breaks|Test): (.+)$")
RULE = re.compile(r"[RBMH]\d+|safety: .+|drill: .+")


@dataclass(frozen=True, slots=True)
class Mutant:
    """A patch and what its header says."""

    path: Path
    rule: str
    """``R8``; ``safety: PROPERTY`` for a property of docs/safety.md, ``drill: PROMISE`` for what
    docs/drill.md promises."""
    breaks: str
    """What the product does wrong under the patch, in a sentence."""
    tests: tuple[str, ...]
    """Node ids as pytest takes them. At least one of the tests must fail under the patch."""

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def on_brokers(self) -> bool:
        """Whether its tests start brokers or Spark."""
        return any(test.startswith("tests/lab/") for test in self.tests)


def mutants(folder: Path = FOLDER) -> tuple[Mutant, ...]:
    """Every mutant of *folder*, by name. Raises ValueError for a header that is not whole."""
    return tuple(parsed(path) for path in sorted(folder.glob("*.patch")))


def parsed(path: Path) -> Mutant:
    """The mutant in *path*. Raises ValueError for a header that is not whole."""
    named = dict(_header(path))
    rules, breaks, tests = (named.get(name, []) for name in ("Rule", "Breaks", "Test"))
    if len(rules) != 1 or len(breaks) != 1 or not tests or not RULE.fullmatch(rules[0]):
        raise ValueError(f"{path.name} needs one Rule, one Breaks and at least one Test line")
    whole_files = [test for test in tests if "::" not in test]
    if whole_files:
        raise ValueError(
            f"{path.name} names {whole_files[0]}: name the test that fails, FILE::TEST"
        )
    return Mutant(path, rules[0], breaks[0], tuple(tests))


def _header(path: Path) -> Iterable[tuple[str, list[str]]]:
    """The fields above the patch proper, each with its values in order."""
    found: dict[str, list[str]] = {}
    for line in path.read_text().splitlines():
        if line.startswith("--- "):
            break
        field = HEADER.match(line)
        if field:
            found.setdefault(field[1], []).append(field[2])
    return found.items()
