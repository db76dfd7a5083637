"""Drills by level and seed, and the history of their scores."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakglass.services.errors import StorageError
from breakglass.services.lab.incidents.history import PlayedDrill, history, remember
from breakglass.services.lab.incidents.incident import Happening
from breakglass.services.lab.incidents.levels import DrillLevel, drill_incidents
from tests.kit.program import breakglass

SEEDS = st.integers(0, 10**6)
ONLY_OTHER_TOOLS = {Happening.REASSIGN, Happening.CUT}
PLAYED = PlayedDrill("2026-01-02 03:04", 7, "easy", "keys", 93, 2, 0, 0, 75, 61, 0, "4.3.1")


@given(SEEDS, st.sampled_from(DrillLevel))
def test_a_seed_and_a_level_say_it_all_and_it_is_curable(seed: int, level: DrillLevel) -> None:
    incident = next(drill_incidents(seed, level))
    assert incident == next(drill_incidents(seed, level))
    assert incident.seed == seed
    assert not {step.act for step in incident.steps} & ONLY_OTHER_TOOLS
    assert (incident.kill_at, incident.returning, incident.slow) == (None, None, ())


@given(SEEDS)
def test_an_easy_drill_has_one_plain_topic_and_brokers_that_died(seed: int) -> None:
    incident = next(drill_incidents(seed, DrillLevel.EASY))
    assert len(incident.topics) == 1
    assert not incident.topics[0].compacted
    assert incident.brokers <= 4
    assert {step.act for step in incident.steps} <= {
        *(Happening.WRITE, Happening.KILL, Happening.STOP),
        *(Happening.STRAND, Happening.LAST),
    }


def test_scores_are_kept_in_order_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    folder = tmp_path / "breakglass"
    assert breakglass("drill", "history").out == ""
    remember(PLAYED, folder)
    path = remember(replace(PLAYED, score=100, player="auto"), folder)
    with path.open("a") as file:
        file.write('{"seed": 3, "torn\n[]\n{"at": "only"}\n')
    assert [(one.score, one.player) for one in history(folder)] == [(93, "keys"), (100, "auto")]
    assert path.stat().st_mode & 0o777 == 0o600
    row = breakglass("drill", "history").out.splitlines()[1]
    assert row.split() == "2026-01-02 03:04 easy 7 keys 93 0 0 1:15 61 0".split()  # noqa: SIM905
    drill, _ = breakglass("drill", "history", "--json").document["drills"]
    assert (drill["seed"], drill["score"], drill["kafka_version"]) == (7, 93, "4.3.1")
    path.unlink()
    path.mkdir()
    with pytest.raises(StorageError):
        remember(PLAYED, folder)
    with pytest.raises(StorageError):
        history(folder)


@pytest.mark.parametrize(
    "words",
    [("--auto", "--level", "hardest"), ("--auto", "--incident", "/dev/null"), ()],
    ids=["no such level", "no incident in the file", "neither a terminal nor --auto"],
)
def test_a_drill_that_cannot_be_is_refused_before_anything_starts(words: tuple[str, ...]) -> None:
    ended = breakglass("drill", *words)
    assert (ended.code, ended.out, len(ended.said)) == (2, "", 1)
