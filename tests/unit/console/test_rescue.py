"""What `rescue --before-return` says of brokers that cannot be read."""

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
    assert sentence.startswith("b3 could not be read: if b1 leads first, b3 cuts what it alone has")
    assert "return first, then" not in sentence
    assert "save b3's log folders with `breakglass rescue --source log:DIR`" in sentence


def test_a_broker_that_only_follows_is_sent_first() -> None:
    one = offline(silent(1, role=Role.LAST_KNOWN_ELR), silent(3), TAIL)
    (sentence,) = sentences_of_unread([one, one], 1)
    assert "If b3 can return, let b3 return first, then run this again; else save" in sentence
    assert "and of 1 more when it returns" in sentence
