"""Every rule of recovery has its tests, and docs/rules.md says where."""

import re
from pathlib import Path

import pytest

from breakglass.services.lab.scenarios import SCENARIOS
from tests.lab.recover.incident.conftest import TOGETHER

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "rules.md"
RULES = (*range(1, 34), 37, 38, 40, 41, 42, 43, 46, 47, 48, 49, 50, 51, 52)
WITHOUT_QUORUM = {
    *("majority-lost", "lagging-copy", "controllers-lost", "blank-majority", "broker-ahead")
}
"""Recovered by `quorum` in tests/lab/quorum/test_scenarios.py: no partition is offline."""
UNATTENDED = "replaced-disk-unattended"
"""Whatever may be said of it comes too late: tests/lab/recover/test_replaced_disk.py."""


def files_listed() -> dict[int, list[Path]]:
    """The files that each row of the table links."""
    rows = re.findall(r"^\| R(\d+) \|(.*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return {
        int(number): [(PAGE.parent / link).resolve() for link in re.findall(r"\]\(([^)]+)\)", row)]
        for number, row in rows
    }


def holds_test_of(file: Path, rule: int) -> bool:
    return f"def test_r{rule:02}_" in file.read_text(encoding="utf-8")


def test_the_table_has_every_rule_once_in_order() -> None:
    assert list(files_listed()) == list(RULES)


@pytest.mark.parametrize("rule", RULES)
def test_each_rule_is_shown_on_real_brokers_where_the_table_says(rule: int) -> None:
    listed = files_listed()[rule]
    assert listed
    assert [path.name for path in listed if not path.is_relative_to(ROOT / "tests" / "lab")] == []
    assert [path.name for path in listed if not holds_test_of(path, rule)] == []


def test_each_scenario_is_compared_with_its_truth() -> None:
    played = (ROOT / "tests" / "lab" / "recover" / "test_alone.py").read_text(encoding="utf-8")
    alone = set(re.findall(r'SCENARIO = "(.+)"', played))
    assert alone.isdisjoint(TOGETHER)
    assert {*alone, *TOGETHER, UNATTENDED, *WITHOUT_QUORUM} == {
        scenario.name for scenario in SCENARIOS
    }
