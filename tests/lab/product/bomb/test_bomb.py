"""A time bomb has no countdown anywhere; gone off, it is seen, written down and acknowledged."""

from __future__ import annotations

import re

import pytest

from tests.lab.product.bomb.story import Told, flat, tell

pytestmark = pytest.mark.timeout(300)

TIME_LEFT = re.compile(
    r"within \d|\b\d+:\d\d\b(?!:)|\bin \d+ s\b|\b(30|300) s\b|any moment now|deadline",
    re.IGNORECASE,
)
"""What a countdown, or a number of seconds until an election, looks like."""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    return tell(tmp_path_factory.mktemp("story"))


def test_r02_no_output_says_how_long_until_the_bomb_goes_off(told: Told) -> None:
    shown = dict(told.everything("bomb", "before"))
    assert len(shown) > 10
    for name, output in shown.items():
        assert not TIME_LEFT.findall(output), name


def test_r02_every_output_says_stop_now(told: Told) -> None:
    for name, output in told.everything("bomb"):
        assert "stop b4 NOW" in flat(output), name


def test_r02_two_consoles_opened_at_different_times_say_the_same(told: Told) -> None:
    first, second = (
        told.frames[name].splitlines()[1]
        for name in ("before: opened earlier", "before: opened later")
    )
    assert first == second
