"""What `rescue --before-return` advises on brokers that cannot be read."""

from __future__ import annotations

from breakglass.console.rescue import sentences_of_unread
from breakglass.services.model import Role
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
