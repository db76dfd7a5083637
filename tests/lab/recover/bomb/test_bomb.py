"""A time bomb has no countdown anywhere; gone off, it is seen, written down and acknowledged."""

import re
from pathlib import Path

import pytest

from tests.lab.recover.bomb.story import Told, flat, tell

TIME_LEFT = re.compile(r"within \d|deadline|any moment now|\bin \d+ s\b|\b(30|300) s\b")
"""What a countdown, or a number of seconds until an election, looks like."""
CLOCK = re.compile(r"\d\d:\d\d:\d\d")
README = Path(__file__).parents[4] / "README.md"
SHOWN = ("FIRST stop b4 NOW: BOMB on 3.", "then start b3", "BOMB stop b4 NOW")
"""In the list, of brokers as in the README."""
COUNTDOWN = re.compile(r"\b\d:\d\d\b")


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    return tell(tmp_path_factory.mktemp("story"))


def test_r02_no_output_says_how_long_until_the_bomb_goes_off(told: Told) -> None:
    shown = dict(told.everything("bomb", "before"))
    assert len(shown) > 10
    for name, output in shown.items():
        assert not TIME_LEFT.findall(output), name
        assert not COUNTDOWN.findall(CLOCK.sub("", output)), name


def test_r02_every_output_says_stop_now(told: Told) -> None:
    for name, output in told.everything("bomb"):
        assert "stop b4 NOW" in flat(output), name


def test_r02_two_consoles_opened_at_different_times_say_the_same(told: Told) -> None:
    first, second = (told.frames[f"before: opened {when}"] for when in ("earlier", "later"))
    assert first.splitlines()[1] == second.splitlines()[1]


def test_r02_stopped_in_time_the_best_of_the_others_can_be_elected(told: Told) -> None:
    assert "SAFE elect b1" in flat(told.frames["stopped: list"])


def test_somebody_elses_election_of_a_shorter_log_is_seen_with_what_it_lacks(told: Told) -> None:
    shown = flat(told.frames["seen: another's election"])
    assert "b2 leads with 100 records, b1 had 125; 25 records are only on b1" in shown
    after = flat(told.frames["truncated: journal of orders"])
    assert "25 records are on no replica that was read; b1 has been truncated" in after


@pytest.mark.parametrize("screen", ["list", "overview", "plan", "backups", "metastore", "browser"])
def test_r02_every_screen_says_that_an_empty_broker_was_elected(told: Told, screen: str) -> None:
    shown = flat(told.frames[f"seen: {screen}"])
    assert "b4 was elected EMPTY, seen at" in shown
    assert "carts-0..2 went from 125 to 0" in shown
    assert "do not start b1 before its log folders are saved" in shown


def test_the_line_goes_when_it_is_acknowledged_and_the_journal_keeps_it(told: Told) -> None:
    assert "SEEN" in told.frames["truncated: journal"]
    assert "EMPTY" not in told.frames["acknowledged: list"]
    assert "Acknowledged by" in flat(told.frames["acknowledged: journal"])


def test_commands_repeat_what_a_console_saw_until_it_is_acknowledged(told: Told) -> None:
    assert "SEEN: b4 was elected EMPTY" in told.commands["seen: triage"].err
    assert "SEEN" not in told.commands["acknowledged: triage"].err
    kept = told.commands["afterwards: journal list --observed"].document["observations"]
    assert {(one["topic"], one["partition"]) for one in kept} == {
        ("orders", 0), *(("carts", number) for number in range(3)),
    }  # fmt: skip
    assert all(one["acknowledged_by"] for one in kept)


def test_the_readme_shows_what_real_brokers_showed(told: Told) -> None:
    for page in (README.read_text(encoding="utf-8"), told.frames["bomb: list"]):
        assert [one for one in SHOWN if one not in flat(page)] == []
