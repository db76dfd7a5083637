"""The table of docs/watch.md is the one that the tests under faults go through."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kit.faults import BACKUP, CONSOLE, METASTORE, SERVE, TABLE, Fault
from tests.lab.backup import test_followed as followed_backup
from tests.lab.checkpoint import test_followed as followed_checkpoints
from tests.lab.console import test_watches
from tests.lab.ksql import test_followed as followed_metastore

PAGE = Path(__file__).parents[2] / "docs" / "watch.md"
TESTS: dict[str, Callable[..., None]] = {
    METASTORE: followed_metastore.test_a_metastore_backup_goes_on_through,
    BACKUP: followed_backup.test_a_continuous_backup_goes_on_through,
    SERVE: followed_checkpoints.test_a_server_of_checkpoints_goes_on_through,
    CONSOLE: test_watches.test_the_consoles_watches_go_on_through,
}


def documented() -> dict[str, dict[str, str]]:
    """The cells of the page, by command and fault."""
    text = PAGE.read_text("utf-8")
    lines = text[text.index("| Fault |") :].partition("\n\n")[0].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    head, _, *rest = rows
    commands = [text.removeprefix("`breakglass ").strip("`") for text in head[1:]]
    return {
        command: {row[0]: row[number] for row in rest} for number, command in enumerate(commands, 1)
    }


def test_the_page_has_every_command_and_every_fault() -> None:
    wanted = {command: list(map(str, Fault)) for command in TABLE}
    assert {command: list(cells) for command, cells in documented().items()} == wanted


@pytest.mark.parametrize("command", TABLE)
def test_every_cell_says_what_its_test_waits_for(command: str) -> None:
    found = documented()[command]
    for fault, report in TABLE[command].items():
        assert re.match(rf"{report}[.:;,]", found[fault]), found[fault]


@pytest.mark.parametrize("command", TABLE)
def test_every_cell_is_a_test(command: str) -> None:
    marks = [one for one in TESTS[command].pytestmark if one.name == "parametrize"]  # type: ignore[attr-defined]
    (cells,) = [mark.args[1] for mark in marks]
    assert [(cell.values[0], cell.values[1]) for cell in cells] == list(TABLE[command].items())
