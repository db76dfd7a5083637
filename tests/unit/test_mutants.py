"""The patches that break rules: whole, and fitting the tree as it is. `make mutants` runs them."""

import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from tests.mutants.mutant import Mutant, mutants
from tests.mutants.tree import ROOT, product_files

EVERY = mutants()
PROPERTY = re.compile(r"^- \*\*(.+?)\.\*\* |^## (.+)$", re.MULTILINE)
"""A property that docs/safety.md states: the words in bold of an item, or a heading."""
FUNCTION = re.compile(r"^ *(?:async )?def (\w+)\(", re.MULTILINE)


def test_every_mutant_fits_the_tree() -> None:
    files = product_files(ROOT)
    assert [mutant.name for mutant in EVERY if not changes_something(mutant, files)] == []


def changes_something(mutant: Mutant, files: Mapping[str, str]) -> bool:
    with suppress(ValueError):
        return any(files[name] != text for name, text in mutant.applied(files).items())
    return False


def functions_in(file: Path) -> set[str]:
    """The names of the functions that *file* defines, none where there is no such file."""
    return set(FUNCTION.findall(file.read_text())) if file.is_file() else set()


def test_the_tests_that_mutants_name_exist() -> None:
    named = {test.split("[")[0] for mutant in EVERY for test in mutant.tests}
    places = [(test, *test.split("::")) for test in sorted(named)]
    defined = {file: functions_in(ROOT / file) for _, file, *_ in places}
    assert [test for test, file, *_, name in places if name not in defined[file]] == []


def test_every_property_that_the_docs_state_has_a_mutant_and_no_mutant_breaks_another() -> None:
    text = (ROOT / "docs/safety.md").read_text()
    stated = {bold or heading for bold, heading in PROPERTY.findall(text)}
    broken = {
        mutant.rule.removeprefix("safety: ") for mutant in EVERY if mutant.name[:6] == "safety"
    }
    assert stated == broken
