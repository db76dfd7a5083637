"""`recover` without a plan on a terminal: from what is offline to leaders, in few keys."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.lab.console.commands import last_journal
from tests.lab.console.test_electing_on_screen import PROGRAM, Operator
from tests.lab.scenarios.damaged import damaged
from tests.terminal.conftest import environment
from tests.terminal.pty_terminal import PtyTerminal

MOST_KEYS = 6
"""Beyond those of phrases."""


@pytest.mark.parametrize(
    ("scenario", "options"), [("diverged", None), ("many", {"partitions": "60"})]
)
def test_recover_leads_through_from_what_is_offline_to_leaders(
    tmp_path: Path, scenario: str, options: Mapping[str, str] | None
) -> None:
    with damaged(tmp_path / "lab", scenario, options=options) as lab:
        where = ("--bootstrap-server", lab.cluster.bootstrap_servers, "--within", "5s")
        command = (str(PROGRAM), "recover", *where, "--write")
        with PtyTerminal(command, columns=200, rows=200, env=environment()) as terminal:
            operator, answered = Operator(terminal), 0
            terminal.wait_for("to leave:")
            operator.press("e", "enter")

            def phrases() -> list[str]:
                return re.findall(r"Type '([^']*)' to confirm:", terminal.text)

            def goes_on() -> bool:
                return len(phrases()) > answered or terminal.process.poll() is not None

            while True:
                terminal.until(goes_on, "a phrase to type, or the end")
                if len(phrases()) == answered:
                    break
                terminal.type(phrases()[answered])
                operator.press("enter")
                answered += 1
            shown = terminal.text
            assert terminal.exit_code() == 0, shown
        assert (answered > 0, operator.keys <= MOST_KEYS) == (True, True)
        assert shown.index("start b3") < shown.index("The plan elects") < shown.index("to confirm:")
        assert last_journal(lab.cluster).result == "succeeded"
        assert [state for state in lab.cluster.partitions() if state.offline] == []
