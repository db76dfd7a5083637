"""Each command under each fault of `tests/kit/faults.py` is a test on real brokers."""

from collections.abc import Callable

import pytest

from tests.kit.faults import BACKUP, CONSOLE, METASTORE, SERVE, TABLE
from tests.lab.backup import test_followed as followed_backup
from tests.lab.checkpoint import test_followed as followed_checkpoints
from tests.lab.console import test_watches
from tests.lab.ksql import test_followed as followed_metastore

TESTS: dict[str, Callable[..., None]] = {
    METASTORE: followed_metastore.test_a_metastore_backup_goes_on_through,
    BACKUP: followed_backup.test_a_continuous_backup_goes_on_through,
    SERVE: followed_checkpoints.test_a_server_of_checkpoints_goes_on_through,
    CONSOLE: test_watches.test_the_consoles_watches_go_on_through,
}


@pytest.mark.parametrize("command", TABLE)
def test_every_cell_is_a_test(command: str) -> None:
    marks = [one for one in TESTS[command].pytestmark if one.name == "parametrize"]  # type: ignore[attr-defined]
    (cells,) = [mark.args[1] for mark in marks]
    assert [(cell.values[0], cell.values[1]) for cell in cells] == list(TABLE[command].items())
