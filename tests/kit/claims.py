"""What a front end claims of a moment, judged by what was read independently around that moment.

A console that says "3 offline, 2 s ago" claims that 3 partitions were offline 2 s before. The claim
is stale figures shown as fresh if nobody else read that count near that moment.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

TOLERANCE_SECONDS = 15.0
"""Brokers learn of a change one after the other, and a read takes its time."""
_OFFLINE = re.compile(r"\b([\d,]+) offline\b")
_AGE = re.compile(r"(?<!STALE )\b(\d+) s ago\b")


@dataclass(frozen=True, slots=True)
class Claim:
    """So many partitions without leader, at that moment (Unix time in seconds)."""

    source: str
    moment: float
    offline: int


@dataclass(frozen=True, slots=True)
class Reading:
    """What the lab's own client read between two moments; None: no broker answered."""

    began: float
    ended: float
    offline: int | None

    def near(self, moment: float) -> bool:
        """Whether it was under way within the tolerance of *moment*."""
        return self.began - TOLERANCE_SECONDS <= moment <= self.ended + TOLERANCE_SECONDS


@dataclass(frozen=True, slots=True)
class Dark:
    """Between these moments every broker was dead, so that no partition had a leader."""

    began: float
    ended: float
    partitions: int

    def covers(self, moment: float) -> bool:
        """Whether *moment* is so far within that nothing read before or after explains it."""
        return self.began + TOLERANCE_SECONDS < moment < self.ended - TOLERANCE_SECONDS

    def passed(self, claim: Claim, readings: Iterable[Reading]) -> bool:
        """Whether the count fell from all to the claimed one before the first reading after."""
        for reading in readings:
            if reading.began >= self.ended and reading.offline is not None:
                lit = self.ended <= claim.moment <= reading.ended
                return lit and reading.offline < claim.offline <= self.partitions
        return False


def claim_of(header: str, seen: float) -> Claim | None:
    """The claim of the console's first line, *seen* at that moment; None where it makes none.

    A line that says STALE, or how many minutes old it is, claims nothing to be fresh.
    """
    offline, age = _OFFLINE.search(header), _AGE.search(header)
    if offline is None or age is None:
        return None
    return Claim("console", seen - int(age[1]), int(offline[1].replace(",", "")))


def wrong_claims(
    claims: Sequence[Claim], readings: Sequence[Reading], dark: Sequence[Dark]
) -> list[Claim]:
    """The claims that no reading bears out; those without a reading near them are not judged.

    A count may have held from the last reading before the claim, and to the first one after it.
    Between two readings in succession it may have passed every count between theirs.
    """
    known = [(reading, reading.offline) for reading in readings if reading.offline is not None]
    wrong = []
    for claim in claims:
        near = [count for reading, count in known if reading.near(claim.moment)]
        before = [count for reading, count in known if reading.ended <= claim.moment]
        after = [count for reading, count in known if reading.began >= claim.moment]
        passed = _passed(claim.offline, [*before[-1:], *near, *after[:1]])
        passed = passed or any(night.passed(claim, readings) for night in dark)
        if (near and not passed) or any(night.covers(claim.moment) for night in dark):
            wrong.append(claim)
    return wrong


def _passed(count: int, read: Sequence[int]) -> bool:
    """Whether *count* was read, or lies between two of the counts that were *read* in turn."""
    return count in read or any(min(pair) < count < max(pair) for pair in pairwise(read))
