"""Every sentence that calls something whole or done names the test that fails when it is false.

``tests/claims.toml`` has them: found by their words in what the product prints, so that a new
sentence fails here until it has a test, or says nothing of what was read, compared, kept or done.
"""

import ast
import re
import tomllib
from collections.abc import Iterator

from tests.mutants.tree import ROOT
from tests.unit.test_mutants import functions_in

WORDS = re.compile(
    r"\b(whole|safe|nothing|identical|recovered|verified|complete|completely|caught up|all|proved"
    r"|unchanged|intact|the same (as|on|in|by)|every (record|byte|command)|no (group|partition"
    r"|record|election|transaction|offset|command|broker|log|replica|setting|difference)s?)\b",
    re.IGNORECASE,
)
VERDICTS = ("identical", "whole", "SAFE")
FEWEST = 20
"""A shorter text is a claim's whole sentence, for as a part it would be in many."""


TABLES = tomllib.loads((ROOT / "tests" / "claims.toml").read_text(encoding="utf-8"))
CLAIMS = {part: test for table in TABLES["claims"].values() for part, test in table.items()}
"""The test of each claim, by a part of its sentence that is in no other."""


def texts(tree: ast.Module) -> Iterator[str]:
    """The texts of a module, with ``{}`` in place of values; docstrings are left out."""
    nodes = list(ast.walk(tree))
    beside = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    beside |= {
        id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values
    }
    for node in nodes:
        match node:
            case ast.JoinedStr(values):
                parts = [part.value if isinstance(part, ast.Constant) else "{}" for part in values]
                yield "".join(map(str, parts)).strip()
            case ast.Constant(str(text)) if id(node) not in beside:
                yield text.strip()


def candidates() -> set[str]:
    found = {
        text
        for package in ("services", "console", "screens")
        for path in (ROOT / package).rglob("*.py")
        if not path.is_relative_to(ROOT / "services" / "lab")
        for text in texts(ast.parse(path.read_text(encoding="utf-8")))
        if WORDS.search(text)
    }
    return {text for text in found if " " in text or text in VERDICTS}


def claim_of(text: str) -> str | None:
    fits = [part for part in CLAIMS if part == text or (len(part) >= FEWEST and part in text)]
    return max(fits, key=len, default=None)


def test_each_sentence_that_claims_completeness_has_its_test_and_no_entry_is_of_none() -> None:
    found = {text: claim_of(text) for text in candidates()}
    patterns = [pattern for table in TABLES["no-claim"] for pattern in table["patterns"]]
    others = [text for text, claim in found.items() if claim is None]
    used = {pattern for pattern in patterns if any(re.search(pattern, text) for text in others)}
    assert [text for text in others if not any(re.search(one, text) for one in used)] == []
    assert sorted({*CLAIMS, *patterns} - {*found.values(), *used}) == []


def test_the_tests_that_claims_name_exist() -> None:
    named = {test: test.split("::") for test in CLAIMS.values()}
    defined = {file: functions_in(ROOT / file) for file, *_ in named.values()}
    assert [test for test, (file, *_, name) in named.items() if name not in defined[file]] == []
