"""The console on a terminal over real brokers, from a cold start to confirmed elections."""

import pytest

from tests.lab.console.commands import last_journal
from tests.lab.console.test_electing_on_screen import console
from tests.lab.recover.rescue.conftest import TYPED
from tests.lab.scenarios.damaged import Damaged

MOST_KEYS = 12


@pytest.mark.main
def test_from_a_cold_start_to_confirmed_elections_in_twelve_keys(lab: Damaged) -> None:
    with console(lab.cluster.bootstrap_servers, "--write", "--gone", "3") as operator:
        operator.ask_for("typed")
        assert operator.type_phrase() == "3 partitions lose 0 and abandon b3"
        operator.press("enter")
        operator.terminal.wait_for("Done: 3 redundant")
        operator.terminal.press("q")
        assert operator.terminal.exit_code() == 0
    assert operator.keys <= MOST_KEYS
    assert [lab.state(partition).leader for partition in TYPED] == [1, 1, 1]
    assert last_journal(lab.cluster).result == "succeeded"
