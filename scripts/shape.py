"""Figures of the shape of the code, each with a budget that only goes down.

``python -m scripts.shape`` prints them, with the places behind one that is named. ``--check``
compares them with ``shape.toml`` and fails where one is above its budget; ``--write`` lowers the
budgets to the figures, and never raises one. Words are counted in what users read (string literals
that are no docstrings, and Markdown) and in docstrings and comments.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
import tokenize
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("bookkeeping", "console", "screens", "services")
OTHERS = ("benchmarks", "breakglass", "docs", "requirements", "scripts", "share", "tests", "themes")
DOCUMENTS = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "SUPPORT.md", "docs")
WORDS = re.compile(
    r"\b(told|anew|whoever|meanwhile|go(?:es|ing)? on with|(?:is|are) held|held against|"
    r"how manieth|so manieth|of the past)\b",
    re.IGNORECASE,
)
PHRASES = re.compile(
    r"\b(?:(?:is|are|was|were|be|been) (?:said|heard)|nobody|beside|one of which)\b"
    r"|\btoo(?=[.;:](?:\s|$))"
    r"|(?:(?<=[.:;] )|^)(?-i:Of) (?:an?|the|each|every|these|those|all|what|which|some|one)\b",
    re.IGNORECASE | re.MULTILINE,
)
"""What a reader stumbles over. Its counts only go down: there are still many in the product."""
QUOTED = re.compile(r"^```.*?^```|`[^`\n]+`", re.MULTILINE | re.DOTALL)
BUDGETS = ROOT / "scripts" / "shape.toml"
FEWEST_LINES = 60
MANY_PARAMETERS = 8
NAMED_FILE = re.compile(r"`([\w./-]+\.py|[\w-]+(?:/[\w-]+)*/)`")


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

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(self.tree))

    @property
    def lines(self) -> int:
        return self.text.count("\n")

    @property
    def package(self) -> str:
        """Its package; one of the services, or the module itself in the services' root."""
        parts = self.name.split(".")
        return ".".join(parts[:2] if parts[0] == "services" else parts[:1])

    @property
    def import_lines(self) -> int:
        """Lines of imports, those of functions included."""
        found = [node for node in self.nodes if isinstance(node, _IMPORTS)]
        return sum((node.end_lineno or node.lineno) - node.lineno + 1 for node in found)

    @cached_property
    def functions(self) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
        return [node for node in self.nodes if isinstance(node, _FUNCTIONS)]

    def at(self, node: ast.stmt, name: str = "") -> str:
        """Where *node* is: ``services/model.py:12 name``."""
        return f"{self.path.relative_to(ROOT)}:{node.lineno} {name}".rstrip()

    @property
    def imported(self) -> set[str]:
        """Names of modules, or of what is in modules, that are imported."""
        found: set[str] = set()
        for node in self.nodes:
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
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


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


def texts_read(module: Module) -> Iterator[str]:
    """The strings of *module* that are no docstrings."""
    documents = set(_docstrings(module))
    for node in module.nodes:
        if id(node) in documents or not isinstance(node, ast.Constant):
            continue
        if isinstance(node.value, str):
            yield node.value


def texts_within(module: Module) -> Iterator[str]:
    """The docstrings and comments of *module*."""
    documents = set(_docstrings(module))
    for node in module.nodes:
        if isinstance(node, ast.Constant) and id(node) in documents:
            yield str(node.value)
    for token in tokenize.generate_tokens(io.StringIO(module.text).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


def _docstrings(module: Module) -> Iterator[int]:
    """The ids of the nodes that are docstrings: of modules, classes, functions and attributes."""
    for node in module.nodes:
        body = getattr(node, "body", None)
        if isinstance(body, list):
            for statement in body:
                if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                    yield id(statement.value)


def _found(pattern: re.Pattern[str], place: str, texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        yield from (f"{place}: {match.group().lower()}" for match in pattern.finditer(text))


def documents() -> Iterator[Path]:
    """The Markdown that users read."""
    for name in DOCUMENTS:
        place = ROOT / name
        yield from sorted(place.rglob("*.md")) if place.is_dir() else [place]


def functions_used_once(module: Module) -> Iterator[str]:
    """Private functions that their module names once, where they are called."""
    used = Counter(
        node.id if isinstance(node, ast.Name) else node.attr
        for node in module.nodes
        if isinstance(node, ast.Name | ast.Attribute)
    )
    for node in module.functions:
        private = node.name.startswith("_") and not node.name.endswith("__")
        if private and used[node.name] == 1:
            yield module.at(node, node.name)


def inner_imports(module: Module) -> Iterator[str]:
    """Imports inside functions."""
    within = {
        node
        for function in module.functions
        for node in ast.walk(function)
        if isinstance(node, _IMPORTS)
    }
    return (module.at(node) for node in within)


def many_parameters(module: Module) -> Iterator[str]:
    """Functions of so many parameters that nobody calls them from memory."""
    for node in module.functions:
        given = node.args
        if len(given.posonlyargs + given.args + given.kwonlyargs) >= MANY_PARAMETERS:
            yield module.at(node, node.name)


def small_dataclasses(module: Module) -> Iterator[str]:
    """Dataclasses of one field."""
    for node in module.nodes:
        if isinstance(node, ast.ClassDef) and any(
            "dataclass" in ast.unparse(decorator) for decorator in node.decorator_list
        ):
            fields = [item for item in node.body if isinstance(item, ast.AnnAssign)]
            if len(fields) == 1 and not node.bases:
                yield module.at(node, node.name)


def open_matches(module: Module) -> Iterator[str]:
    """Matches over the members of an enum that the type checker does not hold to be complete."""
    for node in module.nodes:
        if not isinstance(node, ast.Match):
            continue
        members = any(
            isinstance(pattern, ast.MatchValue) and isinstance(pattern.value, ast.Attribute)
            for case in node.cases
            for pattern in ast.walk(case.pattern)
        )
        if members and "assert_never" not in ast.unparse(node.cases[-1]):
            yield module.at(node)


def circles(found: Iterable[Module]) -> Iterator[str]:
    """Pairs of packages that import each other."""
    everything = {module.name: module for module in found}
    arrows = {
        (module.package, everything[name].package)
        for module in everything.values()
        for name in module.imported & everything.keys()
    }
    for one, other in sorted(arrows):
        if one < other and (other, one) in arrows:
            yield f"{one} <-> {other}"


def missing_files() -> Iterator[str]:
    """Files and folders that the pages for developers name, and that do not exist."""
    there = {
        f"/{path.relative_to(ROOT)}{'/' * path.is_dir()}"
        for folder in (*PACKAGES, *OTHERS)
        for path in (ROOT / folder, *(ROOT / folder).rglob("*"))
    }
    for page in ("CONTRIBUTING.md", "docs/architecture.md"):
        for name in NAMED_FILE.findall((ROOT / page).read_text()):
            if not any(path.endswith(f"/{name}") for path in there):
                yield f"{page}: {name}"


def figures(found: list[Module]) -> dict[str, list[str] | int]:
    """By name, the places that are counted, or the count alone."""
    lines = sum(module.lines for module in found)
    tests = [path.read_text().count("\n") for path in sorted((ROOT / "tests").rglob("*.py"))]
    read = [(module.name, [*texts_read(module)]) for module in found]
    within = [(module.name, [*texts_within(module)]) for module in found]
    pages = [(path.name, [path.read_text(encoding="utf-8")]) for path in documents()]
    prose = [(name, [QUOTED.sub("", text) for text in texts]) for name, texts in pages]
    unwanted = {
        "unwanted words that users read": (WORDS, read + pages),
        "unwanted words in docstrings and comments": (WORDS, within),
        "unwanted phrases in strings": (PHRASES, read),
        "unwanted phrases in pages": (PHRASES, prose),
        "unwanted phrases in docstrings and comments": (PHRASES, within),
    }
    of_each = {
        "private functions used once": functions_used_once,
        "imports inside functions": inner_imports,
        f"functions of {MANY_PARAMETERS} parameters and more": many_parameters,
        "dataclasses of one field": small_dataclasses,
        "matches of an enum without assert_never": open_matches,
    }
    return {
        "modules": len(found),
        "lines": lines,
        "lines of tests": sum(tests),
        "imports in 1,000 lines": round(1_000 * sum(one.import_lines for one in found) / lines),
        f"modules of fewer than {FEWEST_LINES} lines": [
            module.name
            for module in found
            if module.lines < FEWEST_LINES and module.path.stem != "__init__"
        ],
        "modules that one beside them alone imports": single_siblings(importers(found)),
        "packages that import each other": list(circles(found)),
        "public class names shared": list(shared_classes(found)),
        "files named by pages and missing": list(missing_files()),
        **{
            name: [place for one, texts in those for place in _found(pattern, one, texts)]
            for name, (pattern, those) in unwanted.items()
        },
        **{name: [place for one in found for place in of(one)] for name, of in of_each.items()},
    }


def main() -> None:
    """Print the figures, or compare them with their budgets."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", nargs="?", help="list what is counted under this beginning")
    parser.add_argument("--check", action="store_true", help="compare with the budgets")
    parser.add_argument("--write", action="store_true", help="lower the budgets to the figures")
    chosen = parser.parse_args()
    found = figures(modules())
    if chosen.name:
        for name, places in found.items():
            if name.startswith(chosen.name) and isinstance(places, list):
                print(*places, sep="\n")
        return
    counts = {name: one if isinstance(one, int) else len(one) for name, one in found.items()}
    budgets: dict[str, int] = tomllib.loads(BUDGETS.read_text()) if BUDGETS.exists() else {}
    if chosen.write:
        budgets = {name: min(count, budgets.get(name, count)) for name, count in counts.items()}
        BUDGETS.write_text("".join(f'"{name}" = {most}\n' for name, most in budgets.items()))
    above = [name for name, count in counts.items() if count > budgets.get(name, 0)]
    for name in above if chosen.check else counts:
        print(f"{name:44} {counts[name]:8,} of {budgets.get(name, 0):8,}")
    if chosen.check and above:
        sys.exit(
            "Above the budget: delete or merge. python -m scripts.shape NAME lists the places."
        )


if __name__ == "__main__":
    main()
