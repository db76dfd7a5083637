"""The table of docs/long-running.md is the one that the tests under faults go through."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.lab.following import (
    test_backup_continuous,
    test_checkpoint_serve,
    test_console_watches,
    test_metastore_backup,
)
from tests.lab.following.cells import BACKUP, CONSOLE, METASTORE, QUICK, SERVE, TABLE
from tests.lab.following.faults import Fault

PAGE = Path(__file__).parents[2] / "docs" / "long-running.md"
TESTS: dict[str, Callable[..., None]] = {
    METASTORE: test_metastore_backup.test_a_metastore_backup_goes_on_through,
    BACKUP: test_backup_continuous.test_a_continuous_backup_goes_on_through,
    SERVE: test_checkpoint_serve.test_a_server_of_checkpoints_goes_on_through,
    CONSOLE: test_console_watches.test_the_consoles_watches_go_on_through,
}
IN_MAKE_TEST = "¹"


def documented() -> dict[str, dict[str, str]]:
    """The cells of the page, by command and fault."""
    lines = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("|")]
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
        assert re.match(rf"{report}[{IN_MAKE_TEST}.:;,]", found[fault]), found[fault]
        assert (IN_MAKE_TEST in found[fault]) is ((command, fault) in QUICK), found[fault]
    marks = [one for one in TESTS[command].pytestmark if one.name == "parametrize"]  # type: ignore[attr-defined]
    (cells,) = [mark.args[1] for mark in marks]
    assert [(cell.values[0], cell.values[1]) for cell in cells] == list(TABLE[command].items())
