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
    lines = [one for one in PAGE.read_text("utf-8").splitlines() if one.startswith("|")]
    rows = [[cell.strip() for cell in one.strip("|").split("|")] for one in lines]
    head, _, *rest = rows
    commands = [one.removeprefix("`breakglass ").strip("`") for one in head[1:]]
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


@pytest.mark.parametrize("command", TABLE)
def test_every_cell_is_a_test(command: str) -> None:
    marks = [one for one in TESTS[command].pytestmark if one.name == "parametrize"]  # type: ignore[attr-defined]
    (cells,) = [one.args[1] for one in marks]
    assert [(one.values[0], one.values[1]) for one in cells] == list(TABLE[command].items())
    quick = {one.values[0] for one in cells if not one.marks}
    assert quick == {fault for name, fault in QUICK if name == command}
