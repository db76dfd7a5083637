"""What `rescue` advises, what commands print of rescues, and how fast these read."""

from pathlib import Path

import pytest

from breakglass.console.electing import SHOWN_PARTITIONS, say_rescued
from breakglass.console.rescue import sentences_of_unread
from breakglass.services.model import Role, TopicPartition
from breakglass.services.recovery.judgement.succession import PassedOver
from breakglass.services.recovery.rescue.spans import RescuedPartition, Saved, Span
from tests.unit.recovery.replicas import log, offline, silent

TAIL = log(2, (0, 100), (1, 150), hw=100)
"""b2 led epoch 1 alone."""


def test_a_broker_that_leads_when_it_returns_is_not_sent_first() -> None:
    """Whichever of the two leads first, the other one is cut: only its disk can be saved."""
    both = offline(silent(1, role=Role.ELR), silent(3, role=Role.ELR), TAIL)
    (sentence,) = sentences_of_unread([both], 1)
    assert "breakglass rescue --source log:DIR" in sentence
    assert "let b3 return first" not in sentence


def test_a_broker_that_only_follows_is_sent_first() -> None:
    one = offline(silent(1, role=Role.LAST_KNOWN_ELR), silent(3), TAIL)
    (sentence,) = sentences_of_unread([one, one], 1)
    assert "let b3 return first" in sentence
    assert "1 more" in sentence


@pytest.mark.parametrize("proved", [True, False])
def test_r46_a_broker_that_was_passed_over_does_not_return_first_unchecked(proved: bool) -> None:
    one = offline(silent(1, role=Role.LAST_KNOWN_ELR), silent(3), TAIL)
    passed = PassedOver(3, (one.partition,), 0, "a journal", proved)
    (sentence,) = sentences_of_unread([one], 1, [passed])
    assert f"If b3 can return, {passed.act}; then let b3 return first" in sentence


def rescued(number: int, root: Path, *, reason: str = "") -> RescuedPartition:
    path = root / "b2" / "orders" / str(number)
    saved = (Saved(2, (Span(100, 110),), 10, 500, path),)
    return RescuedPartition(TopicPartition("orders", number), 1, () if reason else saved, reason)


@pytest.mark.parametrize(("count", "lines"), [(2, 2), (SHOWN_PARTITIONS + 1, 1)])
def test_each_place_is_printed_where_there_are_few_and_their_sum_where_there_are_many(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], count: int, lines: int
) -> None:
    failed = rescued(99, tmp_path, reason="the disk is full")
    say_rescued([*(rescued(number, tmp_path) for number in range(count)), failed])
    printed = capsys.readouterr().err.splitlines()
    assert [str(tmp_path) in line for line in printed] == [True] * lines
