"""The page of options: every option is on it, and what it says of names is so."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import option_table
from scripts.option_table import EVERYWHERE, Mistake, options, page


def with_names(monkeypatch: pytest.MonkeyPatch, folder: Path, old: str, new: str) -> None:
    """Let the script read its names with *new* for *old*."""
    text = option_table.NAMES.read_text()
    assert old in text
    changed = folder / "names.toml"
    changed.write_text(text.replace(old, new, 1))
    monkeypatch.setattr(option_table, "NAMES", changed)


def test_the_page_is_current(capsys: pytest.CaptureFixture[str]) -> None:
    assert option_table.main(["--check"]) == 0, "run `make docs`"
    assert capsys.readouterr().out == ""


def test_every_option_of_every_command_is_on_the_page() -> None:
    text = page()
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| `")]
    alone = {
        (row[0].strip("| `"), option.strip("`| ")) for row in rows for option in row[1].split(", ")
    }
    shared = {row[0].strip("| `") for row in rows if len(row) == 4}
    for names in options():
        first = names.shown[0]
        command = names.command or "breakglass"
        assert (command, first) in alone or shared & set(names.every) or first in EVERYWHERE


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('option = "--topics-regex"', 'option = "--topics-pattern"', "--topics-pattern is not"),
        ('commands = ["backup cat"]', 'commands = ["backup dog"]', "is not an option of"),
        ("connector: snapshot", "connector: snapshots", "say why"),
        ("`metastore lines`", "`metastore rows`", "there is no command metastore rows"),
        ("`backup run --target-dir`", "`backup run --target`", "backup run has no --target"),
    ],
)
def test_names_that_the_program_has_not_end_the_script(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, old: str, new: str, told: str
) -> None:
    with_names(monkeypatch, tmp_path, old, new)
    with pytest.raises(Mistake, match=told):
        page()


def test_a_page_that_is_not_current_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(option_table, "PAGE", tmp_path / "options.md")
    assert option_table.main(["--check"]) == 1
    assert "run `make docs`" in capsys.readouterr().out
    assert option_table.main([]) == 0
    assert option_table.main(["--check"]) == 0
