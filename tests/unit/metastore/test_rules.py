"""Every rule of the command topic has its tests, and docs/metastore-and-ksqldb.md says where."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "metastore-and-ksqldb.md"
RULES = range(1, 15)


def files_listed() -> dict[int, list[Path]]:
    """The files that each row links."""
    rows = re.findall(r"^\| M(\d+) \|(.*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return {
        int(number): [(PAGE.parent / link).resolve() for link in re.findall(r"\]\(([^)]+)\)", row)]
        for number, row in rows
    }


def test_the_table_has_every_rule_once_in_order() -> None:
    assert list(files_listed()) == list(RULES)


@pytest.mark.parametrize("rule", RULES)
def test_each_rule_is_shown_where_the_table_says(rule: int) -> None:
    listed = files_listed()[rule]
    assert listed
    wanted = f"def test_m{rule}_"
    assert [path.name for path in listed if wanted not in path.read_text(encoding="utf-8")] == []
