"""What texts of options stand for, and the sentence for one that stands for nothing."""

from __future__ import annotations

import pytest

from breakglass.console.option_values import (
    amount,
    broker_ids,
    moment_ms,
    names_in,
    pairs_in,
    spread,
)
from breakglass.services.errors import UsageError
from breakglass.services.words.amounts import duration_ms


def test_names_stand_between_commas() -> None:
    assert names_in(" a, b,,c ") == ("a", "b", "c")
    assert names_in(["a,b", "c", "b"]) == ("a", "b", "c")
    assert names_in(None) == ()


def test_a_pair_ends_at_its_first_equals_sign() -> None:
    assert pairs_in(["a=b=c"], "--map") == {"a": "b=c"}


@pytest.mark.parametrize("text", ["a", "=b", "a="])
def test_what_is_no_pair_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--map"):
        pairs_in([text], "--map", form="OLD=NEW")


def test_an_amount_that_cannot_be_read_is_refused_with_its_option() -> None:
    parse = amount("--older-than", duration_ms)
    assert parse("30d") == 2_592_000_000
    assert parse(5) == 5
    with pytest.raises(UsageError, match="--older-than"):
        parse("soon")


@pytest.mark.parametrize("text", ["3600000", "1970-01-01T01:00", "1970-01-01T03:00+02:00"])
def test_a_moment_is_milliseconds_or_utc_unless_it_says_otherwise(text: str) -> None:
    assert moment_ms(text, "--until-time") == 3_600_000
    assert moment_ms(None, "--until-time") is None


@pytest.mark.parametrize("text", ["", "noon", "-1", "1970-13-01"])
def test_what_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--until-time"):
        moment_ms(text, "--until-time")


@pytest.mark.parametrize(
    "written", [["4 7"], ["4,7"], ["4", "7"], ["b4, b7"], ["4", "b7,4"], ["4,", "7"]]
)
def test_brokers_are_written_with_blanks_with_commas_and_again_and_again(
    written: list[str],
) -> None:
    assert broker_ids(written, "--gone") == (4, 7)
    assert broker_ids(None, "--gone") == ()


@pytest.mark.parametrize("written", [["four"], ["4", "-1"], ["4;7"]])
def test_what_is_no_broker_is_refused(written: list[str]) -> None:
    with pytest.raises(UsageError, match="--gone"):
        broker_ids(written, "--gone")


@pytest.mark.parametrize(
    ("line", "spread_out"),
    [
        ("--gone 4 7 --json", "--gone 4 --gone 7 --json"),
        ("--gone b4,2 7 8", "--gone b4,2 --gone 7 --gone 8"),
        ("--gone=4 7", "--gone=4 --gone 7"),
        ("--gone 4 --topic 5 6", "--gone 4 --topic 5 6"),
        ("--gone 4 plan.json 7", "--gone 4 plan.json 7"),
        ("--topic --gone 4", "--topic --gone 4"),
        ("4 7", "4 7"),
    ],
)
def test_ids_behind_an_option_are_all_its_own(line: str, spread_out: str) -> None:
    assert spread(line.split(), "--gone") == spread_out.split()
