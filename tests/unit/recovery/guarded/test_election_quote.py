"""What a shared phrase does not say of its elections."""

from __future__ import annotations

from breakglass.services.recovery.guarded.election_quote import empty_over_unread
from tests.unit.recovery.replicas import log, offline, silent


def test_r11_an_empty_log_over_unread_ones_is_named_before_the_consent() -> None:
    empty = [offline(log(1), silent(2), number=number) for number in range(3)]
    full = offline(log(1, (0, 9)), silent(2), number=3)
    (sentence,) = empty_over_unread((one, 1, (2,)) for one in (*empty, full))
    assert ("b1 is EMPTY in orders-0 and 2 more" in sentence, "b2" in sentence) == (True, True)
    assert empty_over_unread([(empty[0], 1, ()), (full, 1, (2,))]) == ()
