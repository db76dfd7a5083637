"""The console on a terminal over real brokers: from a cold start to a confirmed election."""

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from breakglass.services.lab.cluster import Cluster
from tests.kit.running import at_rest
from tests.kit.waiting import wait_until
from tests.lab.console.commands import journals, last_journal, leader
from tests.lab.recover.session import ELECT_LEADERS, Watched, watched
from tests.lab.scenarios.damaged import damaged
from tests.terminal.conftest import environment
from tests.terminal.pty_terminal import PtyTerminal

PROGRAM = Path(sys.executable).parent / "breakglass"
ASKED = "Type to confirm: "


class Operator:
    """Somebody at a terminal, whose keys are counted."""

    def __init__(self, terminal: PtyTerminal) -> None:
        self.terminal = terminal
        self.keys = 0
        """But for those of phrases."""

    def press(self, *keys: str) -> None:
        self.keys += len(keys)
        self.terminal.press(*keys)

    def ask_for(self, topic: str) -> None:
        """From the list to the election of all of *topic*."""
        self.terminal.wait_for("? help")
        self.terminal.wait_for("Topic-partition")
        self.press("/", *topic, "enter")
        self.terminal.wait_for(f"filter: {topic} (")
        self.terminal.wait_for(" e elect")
        self.press("e")

    def type_phrase(self) -> str:
        """Go to the field and type what is asked for."""
        self.terminal.wait_for(ASKED)
        (phrase,) = re.findall(rf"{ASKED}(.*)", self.terminal.text)
        self.press("tab")
        self.terminal.type_phrase(phrase)
        return str(phrase)


@contextmanager
def console(servers: str, *more: str) -> Iterator[Operator]:
    """The console on a terminal of 80 x 24, as an operator starts it."""
    command = (str(PROGRAM), "console", "--bootstrap-server", servers, *more)
    with PtyTerminal(command, env=environment()) as terminal:
        yield Operator(terminal)


def through(brokers: Watched) -> tuple[str, ...]:
    """What makes a console reach the brokers by their proxies alone, and ask b2 first."""
    addresses = {broker: str(proxy.address) for broker, proxy in brokers.proxies.items()}
    told = [
        word
        for broker, one in addresses.items()
        for word in ("--broker-address", f"{broker}={one}")
    ]
    return (addresses[2], *told, "--write")


def test_r42_a_phrase_pasted_with_its_newline_elects_nothing_and_enter_twice_is_one_election(
    broken: Cluster,
) -> None:
    with console(broken.bootstrap_servers, "--write") as operator:
        operator.ask_for("once")
        operator.terminal.wait_for(ASKED)
        (phrase,) = re.findall(rf"{ASKED}(.*)", operator.terminal.text)
        operator.press("tab")
        operator.terminal.send(f"{phrase}\r".encode())
        operator.terminal.wait_for("Pasting is refused here")
        assert journals(broken) == []
        operator.press("tab")
        operator.type_phrase()
        operator.press("enter", "enter", "enter")
        operator.terminal.wait_for("Done: 1 ")
        operator.terminal.press("q")
        assert operator.terminal.exit_code() == 0
    (journal,) = journals(broken)
    assert [step.name for step in journal.steps].count("elect") == 1


def test_a_lost_connection_ends_after_the_request_and_is_taken_up_again(broken: Cluster) -> None:
    with watched(broken) as brokers, console(*through(brokers), "--gone", "3") as operator:
        operator.ask_for("cut-off")
        operator.type_phrase()
        brokers.proxies[2].hold(ELECT_LEADERS)
        operator.press("enter")
        brokers.proxies[2].wait_seen(ELECT_LEADERS)
        operator.terminal.hang_up()
        program = operator.terminal.process
        wait_until(lambda: at_rest(program.pid), "the console to have heard of it")
        brokers.proxies[2].heal()
        program.wait(600)
    (journal,) = journals(broken)
    assert (journal.result, journal.unsettled) == (None, ())
    led = [leader(broken, "cut-off", number) for number in range(3)]
    assert sorted(led, key=str) == [1, None, None], "the canary alone"
    with console(broken.bootstrap_servers, "--write") as operator:
        operator.terminal.wait_for("An election was interrupted.")
        operator.press("enter")
        assert operator.type_phrase() == "2 partitions lose 0 and abandon b3"
        operator.press("enter")
        operator.terminal.wait_for("Done: ")
    assert [leader(broken, "cut-off", number) for number in range(3)] == [1, 1, 1]
    assert last_journal(broken).result == "succeeded"


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
