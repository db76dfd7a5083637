"""Figures of the shape of the code: its size, its imports, names that are shared, unwanted words.

``python -m scripts.shape`` prints them; ``--names`` and ``--words`` list what is counted. Words are
counted in what users read (string literals that are no docstrings, and Markdown) and in docstrings
and comments.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("bookkeeping", "console", "screens", "services")
DOCUMENTS = ("README.md", "CONTRIBUTING.md", "docs")
WORDS = re.compile(
    r"\b(told|anew|whoever|meanwhile|go(?:es|ing)? on with|(?:is|are) held|held against|"
    r"how manieth|so manieth|of the past)\b",
    re.IGNORECASE,
)
MOST_LINES = 400


@dataclass(frozen=True)
class Module:
    """One file of the product."""

    path: Path

    @property
    def name(self) -> str:
        parts = self.path.relative_to(ROOT).with_suffix("").parts
        return ".".join(part for part in parts if part != "__init__")

    @cached_property
    def text(self) -> str:
        return self.path.read_text()

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @property
    def lines(self) -> int:
        return self.text.count("\n")

    @property
    def import_lines(self) -> int:
        """Lines of imports, those of functions included."""
        found = [node for node in ast.walk(self.tree) if isinstance(node, _IMPORTS)]
        return sum((node.end_lineno or node.lineno) - node.lineno + 1 for node in found)

    @property
    def imported(self) -> set[str]:
        """Names of modules, or of what is in modules, that are imported."""
        found: set[str] = set()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        return {name.removeprefix("breakglass.") for name in found}

    @property
    def classes(self) -> list[str]:
        """The public classes of the module."""
        defined = [node.name for node in self.tree.body if isinstance(node, ast.ClassDef)]
        return [name for name in defined if not name.startswith("_")]


_IMPORTS = (ast.Import, ast.ImportFrom)


def modules() -> list[Module]:
    """All modules of the product, by name."""
    paths = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    return sorted((Module(path) for path in paths), key=lambda module: module.name)


def shared_classes(found: Iterable[Module]) -> dict[str, list[str]]:
    """Public class names that several modules define, with these modules."""
    owners: dict[str, list[str]] = defaultdict(list)
    for module in found:
        for name in module.classes:
            owners[name].append(module.name)
    return {name: where for name, where in sorted(owners.items()) if len(where) > 1}


def importers(found: Iterable[Module]) -> dict[str, set[str]]:
    """By module, the modules of the product that import it."""
    everything = list(found)
    known = {module.name for module in everything}
    users: dict[str, set[str]] = {name: set() for name in known}
    for module in everything:
        for name in module.imported & known - {module.name}:
            users[name].add(module.name)
    return users


def single_siblings(users: dict[str, set[str]]) -> list[str]:
    """Modules that one module alone imports, which lies in the same folder."""
    return [
        name
        for name, those in sorted(users.items())
        if len(those) == 1 and _folder(next(iter(those))) == _folder(name)
    ]


def _folder(name: str) -> str:
    return name.rpartition(".")[0]


def words_read(module: Module) -> Iterator[str]:
    """Unwanted words in the strings of *module* that are no docstrings."""
    documents = set(_docstrings(module.tree))
    for node in ast.walk(module.tree):
        if id(node) in documents or not isinstance(node, ast.Constant):
            continue
        if isinstance(node.value, str):
            yield from _words(node.value)


def words_within(module: Module) -> Iterator[str]:
    """Unwanted words in the docstrings and comments of *module*."""
    documents = set(_docstrings(module.tree))
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Constant) and id(node) in documents:
            yield from _words(str(node.value))
    for token in tokenize.generate_tokens(io.StringIO(module.text).readline):
        if token.type == tokenize.COMMENT:
            yield from _words(token.string)


def _docstrings(tree: ast.Module) -> Iterator[int]:
    """The ids of the nodes that are docstrings: of modules, classes, functions and attributes."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            for statement in body:
                if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                    yield id(statement.value)


def _words(text: str) -> Iterator[str]:
    return (match.group().lower() for match in WORDS.finditer(text))


def documents() -> Iterator[Path]:
    """The Markdown that users read."""
    for name in DOCUMENTS:
        place = ROOT / name
        yield from sorted(place.rglob("*.md")) if place.is_dir() else [place]


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--names", action="store_true", help="list shared class names, siblings")
    parser.add_argument("--words", action="store_true", help="list unwanted words by file")
    chosen = parser.parse_args()
    found = modules()
    _print_figures(found)
    if chosen.names:
        for name, where in shared_classes(found).items():
            print(f"{name}: {', '.join(where)}")
        print(*single_siblings(importers(found)), sep="\n")
    if chosen.words:
        for module in found:
            some = Counter([*words_read(module), *words_within(module)])
            if some:
                print(f"{module.name}: {dict(some)}")


def _print_figures(found: list[Module]) -> None:
    lines = [module.lines for module in found]
    imports = sum(module.import_lines for module in found)
    shared = shared_classes(found)
    users = importers(found)
    read = Counter(word for module in found for word in words_read(module))
    read.update(word for path in documents() for word in _words(path.read_text()))
    within = Counter(word for module in found for word in words_within(module))
    figures = {
        "modules": len(found),
        "lines": sum(lines),
        "median lines of a module": median(lines),
        f"modules of more than {MOST_LINES} lines": sum(line > MOST_LINES for line in lines),
        "lines of imports": f"{imports} ({100 * imports / sum(lines):.1f} %)",
        "public class names shared": f"{len(shared)} by {sum(map(len, shared.values()))} classes",
        "modules with one importer": sum(len(those) == 1 for those in users.values()),
        "of them beside it": len(single_siblings(users)),
        "words that users read": f"{read.total()} {dict(read.most_common())}",
        "words in docstrings and comments": f"{within.total()} {dict(within.most_common())}",
    }
    for name, figure in figures.items():
        print(f"{name:38} {figure}")


if __name__ == "__main__":
    main()
