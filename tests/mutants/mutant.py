"""One mutant: a patch that breaks a rule, with a header that names the rule and its test.

A patch is found by its text, not by file and line: where its lines are no longer in the file that
it names, they are looked for in the rest of the product, so that code can move.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "rules"
HEADER = re.compile(r"^(Rule|Breaks|Test): (.+)$")
RULE = re.compile(r"[RBMHSQ]\d+|safety: .+|drill: .+")


HUNK = re.compile(r"^@@ -(\d+)")
CONTEXT = (3, 2, 1)
"""So many of a patch's unchanged lines are compared above and below a change, the most first."""


@dataclass(frozen=True, slots=True)
class Change:
    """One place that a patch changes."""

    file: str
    line: int
    lines: tuple[str, ...]
    """As the patch has them: each begins with a space, a minus or a plus."""

    def texts(self, context: int) -> tuple[str, str]:
        """The lines before and after, with at most *context* unchanged ones around them."""
        changed = [number for number, line in enumerate(self.lines) if line[0] != " "]
        kept = self.lines[max(0, changed[0] - context) : changed[-1] + 1 + context]
        before, after = (
            "".join(f"\n{line[1:]}" for line in kept if line[0] != other) for other in "+-"
        )
        return f"{before}\n", f"{after}\n"


@dataclass(frozen=True, slots=True)
class Mutant:
    """A patch and what its header says."""

    path: Path
    rule: str
    """``R8``; ``safety: PROPERTY`` for a property of docs/safety.md, ``drill: PROMISE`` for what
    docs/practise.md promises."""
    breaks: str
    """What the product does wrong under the patch, in a sentence."""
    tests: tuple[str, ...]
    """Node ids as pytest takes them. At least one of the tests must fail under the patch."""

    @property
    def name(self) -> str:
        return self.path.stem

    def applied(self, files: Mapping[str, str]) -> dict[str, str]:
        """The texts of those of *files* that it changes. Raises ValueError if it does not fit."""
        changed: dict[str, str] = {}
        for change in _changes(self.path):
            there = {**files, **changed}
            own = {change.file: there[change.file]} if change.file in there else {}
            found = _place(change, own) or _place(change, there)
            if found is None:
                raise ValueError(f"{self.name} does not fit the tree near {change.file}")
            name, text = found
            changed[name] = text
        return changed

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


def _changes(path: Path) -> Iterator[Change]:
    """What the patch changes, place by place."""
    file, line, lines = "", 0, list[str]()
    for text in [*path.read_text().splitlines(), "--- end"]:
        begins = HUNK.match(text)
        if begins or text.startswith("--- "):
            if lines:
                yield Change(file, line, tuple(lines))
            lines = []
        if begins:
            line = int(begins[1])
        elif text.startswith("+++ "):
            file = text.removeprefix("+++ b/").split("\t")[0]
        elif line and not text.startswith("--- ") and text[:1] in ("", " ", "-", "+"):
            lines.append(text or " ")
        if text.startswith("--- "):
            line = 0


def _place(change: Change, files: Mapping[str, str]) -> tuple[str, str] | None:
    """The one file of *files* that has the lines of *change*, and its text with the others."""
    for context in CONTEXT:
        before, after = change.texts(context)
        having = [name for name, text in files.items() if before in f"\n{text}"]
        if len(having) == 1:
            text = f"\n{files[having[0]]}"
            places = [found.start() for found in re.finditer(re.escape(before), text)]
            at = min(places, key=lambda place: abs(text.count("\n", 0, place) - change.line))
            return having[0], (text[:at] + after + text[at + len(before) :])[1:]
    return None


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
