"""What becomes of offline partitions by themselves."""

from __future__ import annotations

from breakglass.services.incident.forecast import Restorer, forecast_of
from breakglass.services.model import Role
from tests.kit.incidents import bomb, every_verdict, incident_of, unread, waiting
from tests.unit.recovery.replicas import log, offline, silent

RETURNING = offline(log(1, (0, 9), role=Role.LAST_KNOWN_ELR), silent(3), topic="stock", number=0)
"""b1 is live and led last."""
CUT_OFF = offline(log(2, (0, 9), role=Role.ELR, fenced=True), log(1, (0, 5)), number=9)
"""b2 runs and is fenced."""


def test_harm_comes_first_then_what_comes_back_then_what_stays() -> None:
    rows = incident_of(waiting(0), waiting(1), RETURNING, bomb(0)).rows
    told = [
        (
            outlook.successor,
            outlook.harmful,
            outlook.whole,
            [str(row.partition) for row in outlook.rows],
        )
        for outlook in forecast_of(rows).outlooks
    ]
    assert told == [
        (4, True, False, ["carts-0"]),
        (1, False, True, ["stock-0"]),
        (None, False, False, ["orders-0", "orders-1"]),
    ]


def test_every_judged_partition_has_one_outlook_and_what_is_not_read_yet_none() -> None:
    rows = every_verdict().rows
    forecast = forecast_of((*rows, *unread(4).rows))
    assert sum(len(outlook.rows) for outlook in forecast.outlooks) == len(rows)
    assert forecast.unread == 4


def test_who_is_to_be_started_and_who_only_reconnected_are_told_apart() -> None:
    rows = incident_of(waiting(0), waiting(1), CUT_OFF, RETURNING).rows
    assert forecast_of(rows).restores == (Restorer(3, 2, runs=False), Restorer(2, 1, runs=True))
