"""The soak of the console finds stale figures that are shown as fresh."""

from __future__ import annotations

import pytest

from tests.kit.claims import Claim, Dark, Reading, claim_of, wrong_claims

READINGS = (Reading(1000, 1001, 0), Reading(1060, 1061, 4), Reading(1120, 1121, None))
"""Brokers died between the first two; nobody answered the third."""
DARK = (Dark(1100, 1160, 8),)
LIT = (*READINGS, Reading(1165, 1166, None), Reading(1167, 1168, 2), Reading(1169, 1170, 0))
"""Brokers returned one after the other."""


def test_the_first_line_of_the_console_claims_what_it_says_of_its_moment() -> None:
    line = " lab  READ-ONLY  quorum ok  3 brokers, 1 fenced  1,874 offline  2 s ago"
    assert claim_of(line, 1002) == Claim("console", 1000, 1874)


@pytest.mark.parametrize(
    "line",
    [
        " lab  READ-ONLY  3 brokers  4 offline  STALE 9 s",
        " lab  READ-ONLY  3 brokers  4 offline  3 min ago",
        " lab  READ-ONLY  3 brokers  4 offline  refresh paused",
        " breakglass  READ-ONLY  connecting",
    ],
)
def test_a_line_that_says_that_it_is_old_claims_nothing(line: str) -> None:
    assert claim_of(line, 1002) is None


@pytest.mark.parametrize(
    ("claim", "is_wrong"),
    [
        (Claim("console", 1001, 0), False),
        (Claim("console", 1014, 0), False),
        (Claim("console", 1058, 0), False),
        (Claim("console", 1070, 0), True),
        (Claim("console", 1058, 2), False),
        (Claim("console", 1058, 5), True),
        (Claim("exporter", 1061, 4), False),
        (Claim("exporter", 1030, 7), False),
        (Claim("exporter", 1130, 4), True),
        (Claim("exporter", 1150, 4), False),
    ],
    ids=[
        *("borne out", "borne out a little later", "not known to have changed yet"),
        *("the count before", "a count on the way", "a count of nobody", "the new count"),
        *("nothing was read near it", "every broker was dead", "brokers may answer again"),
    ],
)
def test_a_claim_is_wrong_if_no_reading_bears_it_out(claim: Claim, is_wrong: bool) -> None:
    assert wrong_claims([claim], READINGS, DARK) == ([claim] if is_wrong else [])


@pytest.mark.parametrize(
    ("claim", "is_wrong"),
    [
        (Claim("exporter", 1167, 6), False),
        (Claim("exporter", 1169, 1), False),
        (Claim("exporter", 1167, 9), True),
        (Claim("exporter", 1169, 6), True),
        (Claim("exporter", 1174, 6), True),
    ],
    ids=[
        *("fallen from all", "fallen further"),
        *("more than there are", "after a reading of fewer", "much later"),
    ],
)
def test_counts_fall_from_all_when_brokers_return(claim: Claim, is_wrong: bool) -> None:
    assert wrong_claims([claim], LIT, DARK) == ([claim] if is_wrong else [])
