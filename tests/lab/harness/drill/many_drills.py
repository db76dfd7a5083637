"""`make drills DRILLS=N`: Breakglass plays each seed and level, then the best play is typed: 100.

By its name no other run of pytest collects it: each drill takes a minute or more.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from breakglass.console.drill import heard
from breakglass.console.wiring import Connection
from breakglass.services.connection.sources import ConnectionOptions
from breakglass.services.guard.lock import file_name
from breakglass.services.lab.incidents.drill import Drill, raise_drill
from breakglass.services.lab.incidents.generate import DrillLevel, drill_incidents
from breakglass.services.lab.keeper import kept
from breakglass.services.recovery.guarded.rescue_choice import default_folder
from breakglass.services.state_folder import state_folder
from tests.kit.program import breakglass

SEEDS = range(1, 1 + int(os.environ.get("BREAKGLASS_DRILLS", "3")))
LEVELS = tuple(DrillLevel)
PATH = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
REFUSED, MOST_PHRASES = 3, 40
CONSENT = "consent: "


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("level", LEVELS)
def test_breakglass_scores_100(seed: int, level: DrillLevel) -> None:
    ended = breakglass("lab", "drill", "--auto", "--seed", seed, "--level", level, "--json")
    assert (ended.code, ended.document["score"]) == (0, 100), ended.out + ended.err
    assert ended.document["wrong_verdicts"] == []


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("level", LEVELS)
def test_the_best_play_scores_100_when_it_is_typed(
    seed: int, level: DrillLevel, tmp_path: Path
) -> None:
    with kept(tmp_path / "drill", state_folder()) as lab:
        drill = raise_drill(drill_incidents(seed, level), lab)
        connection = Connection(ConnectionOptions(drill.cluster.bootstrap_servers))
        drill.hear(heard(connection, drill.handed_over.brokers.gone))
        said = [typed(step.command, drill) for step in drill.replay().steps]
        found = drill.judge(default_folder() / file_name(drill.cluster.layout.cluster_id))
    assert found.deductions == (), "\n".join(said)
    assert found.partitions


def typed(line: str, drill: Drill) -> str:
    """Run *line* as the shell of the drill does, with each phrase that it asks for."""
    lab = drill.cluster.state_dir
    here = {"BREAKGLASS_BOOTSTRAP_SERVER": drill.cluster.bootstrap_servers, "LAB": str(lab)}
    phrases: list[str] = []
    while True:
        words = "".join(f" --consent '{phrase}'" for phrase in phrases)
        done = subprocess.run(
            ["/bin/sh", "-c", line + words],
            env={**os.environ, **here, "PATH": PATH},
            cwd=lab.parent,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        last = (done.stderr.strip().splitlines() or [""])[-1]
        wanted = done.returncode == REFUSED and last.startswith(CONSENT)
        if not wanted or len(phrases) == MOST_PHRASES:
            return f"$ {line}\nexit {done.returncode}\n{done.stdout}{done.stderr}"
        phrases.append(last.removeprefix(CONSENT))
