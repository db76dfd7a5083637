"""Whole drills on real brokers: played by Breakglass, and by keys on a terminal, well and badly."""

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from breakglass.services.lab.incidents.drill import history
from breakglass.services.lab.incidents.incident import (
    Happening,
    LabIncident,
    LabTopic,
    Step,
    Way,
    to_json,
)
from breakglass.services.state_folder import state_folder
from tests.kit.program import breakglass
from tests.kit.waiting import wait_until
from tests.lab.console.test_electing_on_screen import ASKED
from tests.terminal.conftest import environment
from tests.terminal.pty_terminal import PtyTerminal

PROGRAM = Path(sys.executable).with_name("breakglass")
PATH = f"{PROGRAM.parent}:{os.environ['PATH']}"
SEED = 1
SHARED, LATER, ALONE = 20, 15, 5
"""Records of every replica, of b1 and b3, of b1."""
STALE_FIRST = LabIncident(
    seed=0,
    brokers=3,
    controllers=1,
    log_dirs=1,
    topics=(LabTopic("orders", ((1, 2, 3), (1, 2, 3))),),
    steps=(
        Step(Happening.WRITE, count=SHARED),
        Step(Happening.KILL, (2,)),
        Step(Happening.WRITE, count=LATER),
        Step(Happening.KILL, (3,)),
        Step(Happening.WRITE, count=ALONE),
        Step(Happening.LAST, (1,), back=(2, 3)),
    ),
    way=Way.PLAN,
)
"""b1 is lost for good; b2, the first that lives, lacks what b3 holds."""
WORST = '{"partitions":[{"topic":"orders","partition":1,"designatedLeader":2}]}'
LAB_SECONDS = 600.0


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where drills have their folders; nothing is left there at the end."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", None)
    yield folder
    wait_until(lambda: not list(folder.iterdir()), "every lab to be taken down")


def files_of_state() -> list[str]:
    return sorted(path.name for path in state_folder().rglob("*") if path.is_file())


def test_breakglass_by_itself_scores_100() -> None:
    ended = breakglass("lab", "drill", "--auto", "--seed", SEED, "--json")
    assert ended.code == 0, ended.err
    document = ended.document
    assert document["deductions"] == [], ended.err
    assert (document["schema"], document["score"], document["lost"]) == (1, 100, 0)
    assert document["left"] == 0
    assert document["partitions"]
    assert document["wrong_verdicts"] == []
    assert document["best"]["steps"]
    (played,) = history(state_folder())
    assert (played.player, played.seed, played.score) == ("auto", SEED, 100)
    assert files_of_state() == ["drills.jsonl"]


def test_a_person_recovers_by_keys_and_is_told_what_the_worst_replica_cost(
    tmp_path: Path, temporary: Path
) -> None:
    """orders-0 is recovered in the console; orders-1 in the shell, by its worst replica."""
    path = tmp_path / "incident.json"
    path.write_text(to_json(STALE_FIRST))
    command = (PROGRAM, "lab", "drill", "--incident", path)
    here = environment(TMPDIR=str(temporary), PATH=PATH, SHELL="/bin/sh", PS1="drill> ")
    with PtyTerminal(command, env=here) as terminal:
        terminal.wait_for("The clock runs", LAB_SECONDS)
        assert "b1: lost for good, machine and disk." in terminal.text
        terminal.press("enter")
        phrase = elect_in_console(terminal, "orders-0")
        terminal.wait_for("Partitions are offline.")
        elect_in_shell(terminal)
        terminal.wait_for("Score 75 of 100", LAB_SECONDS)
        assert "-13  lost: 15 of 70 records are in no log and not saved" in terminal.text
        assert terminal.exit_code(LAB_SECONDS) == 0
    (played,) = history(state_folder())
    assert (played.player, played.score, played.lost, played.left) == ("keys", 75, LATER, 0)
    # b 1 Enter / orders-0 Enter e Tab PHRASE Enter q
    assert played.keys == 3 + 10 + 2 + len(phrase) + 2
    assert played.commands == 4
    assert files_of_state() == ["drills.jsonl"]


def elect_in_console(terminal: PtyTerminal, name: str) -> str:
    """Declare b1 gone, elect the best replica of *name*, and leave; returns the phrase."""
    terminal.wait_for("Topic-partition", LAB_SECONDS)
    terminal.press("b")
    terminal.wait_for("an empty line undoes it")
    terminal.press("1", "enter")
    terminal.wait_for("elect b3")
    terminal.press("/", *name, "enter")
    terminal.wait_for(f"filter: {name} (")
    terminal.press("e")
    terminal.wait_for(ASKED)
    (phrase,) = re.findall(rf"{ASKED}(.*)", terminal.text)
    terminal.press("tab")
    terminal.type_phrase(phrase)
    terminal.press("enter")
    terminal.wait_for("Done: 1 ", LAB_SECONDS)
    terminal.press("q")
    return str(phrase)


def elect_in_shell(terminal: PtyTerminal) -> None:
    """Elect the worst replica, without saving what that cuts off, and leave."""
    terminal.type("s")
    terminal.press("enter")
    terminal.wait_for("drill>", LAB_SECONDS)
    terminal.type(f"echo '{WORST}' > worst.json")
    terminal.press("enter")
    terminal.type("breakglass recover worst.json --gone 1 --without-rescue --write")
    terminal.press("enter")
    terminal.wait_for("to confirm:", LAB_SECONDS)
    (phrase,) = re.findall(r"Type '(.+)'\s+to confirm", terminal.text)
    terminal.type(phrase)
    terminal.press("enter")
    terminal.wait_for("orders-1  elected b2", LAB_SECONDS)
    terminal.type("exit")
    terminal.press("enter")
