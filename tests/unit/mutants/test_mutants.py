"""The patches that break rules: whole, and fitting the tree as it is. `make mutants` runs them."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

from tests.mutants.__main__ import main
from tests.mutants.mutant import Mutant, mutants, parsed
from tests.mutants.tree import ROOT

EVERY = mutants()
PROPERTY = re.compile(r"^- \*\*(.+?)\.\*\* |^## (.+)$", re.MULTILINE)
"""A property that docs/safety.md states: the words in bold of an item, or a heading."""
QUICK = (
    "b09_stamps",
    "h02_a_restored",
    "r04_no_canary",
    "safety_others_may_read",
    "safety_read_only_sends_everything",
)
"""Of different areas, without brokers, killed in seconds: what CI proves each time."""


@pytest.mark.parametrize("mutant", EVERY, ids=[mutant.name for mutant in EVERY])
def test_a_mutant_fits_the_tree(mutant: Mutant) -> None:
    done = subprocess.run(
        ["git", "apply", "--check", "-C1", str(mutant.path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("mutant", EVERY, ids=[mutant.name for mutant in EVERY])
def test_the_test_that_a_mutant_names_exists(mutant: Mutant) -> None:
    for test in mutant.tests:
        file, *_, name = test.split("[")[0].split("::")
        functions = ast.walk(ast.parse((ROOT / file).read_text()))
        assert name in {getattr(function, "name", None) for function in functions}, test


def test_every_property_that_the_docs_state_has_a_mutant_and_no_mutant_breaks_another() -> None:
    text = (ROOT / "docs/safety.md").read_text()
    stated = {bold or heading for bold, heading in PROPERTY.findall(text)}
    broken = {
        mutant.rule.removeprefix("safety: ") for mutant in EVERY if mutant.name[:6] == "safety"
    }
    assert stated == broken


@pytest.mark.timeout(300)
def test_mutants_are_killed_by_the_tests_that_they_name(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([*QUICK, "--jobs", "1", "--without-brokers"]) == 0
    assert f"{len(QUICK)} of {len(QUICK)} mutants killed" in capsys.readouterr().out


def test_a_mutant_that_its_test_does_not_notice_fails_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    noticed = (EVERY[0].path.parent / "r04_no_canary.patch").read_text()
    unnoticed = noticed.replace("test_r04_one_then_ten", "test_every_target_is_in_exactly_one")
    unnoticed = unnoticed.replace("_then_a_thousand", "_batch_whatever_the_order")
    (tmp_path / "unnoticed.patch").write_text(unnoticed)
    monkeypatch.setattr("tests.mutants.__main__.mutants", lambda: mutants(tmp_path))
    assert main(["--jobs", "1"]) == 1
    assert "SURVIVES" in capsys.readouterr().out


@pytest.mark.parametrize(
    "header",
    [
        "Rule: R4\nBreaks: it\n",
        "Rule: X4\nBreaks: it\nTest: tests/a.py::test_a\n",
        "Rule: R4\nTest: tests/a.py::test_a\n",
        "Rule: R4\nBreaks: it\nTest: tests/a.py\n",
    ],
)
def test_a_header_that_is_not_whole_is_refused(header: str, tmp_path: Path) -> None:
    patch = tmp_path / "some.patch"
    patch.write_text(f"{header}\n--- a/x\n+++ b/x\n")
    with pytest.raises(ValueError, match=r"some\.patch"):
        parsed(patch)
