"""Judges the sentences of Breakglass that claim something, one pattern each. Pure.

A claim is a sentence with a number of records, or with one of the words of `WORDS`. What has no
pattern here is handed back as unjudged, so that a campaign says what nobody has compared.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

from breakglass.bookkeeping.judge import JudgeFinding, SaidPartition
from breakglass.bookkeeping.log_files import NO_LOG, DiskReading, Name

WORDS = re.compile(r"\b(whole|safe|nothing|identical|all|recovered|[\d,]+ records?)\b", re.I)
RETURNING = re.compile(r"b(\d+): ([\d,]+) of ([\d,]+) comes? back whole( if )?")
ELECTING = re.compile(r"Elect: ([\d,]+) of ([\d,]+) loses? nothing that is readable")
LED = re.compile(r"b(\d+) is out of sync in ([\d,]+) partitions?")
RESCUED = re.compile(r"rescued ([\d,]+) records? of b\d+: (\S+)")
NOTHING = re.compile(r"No partition is offline")
BY_DISKS = re.compile(
    r"is safe to start|cuts nothing of other replicas|holds everything that can be"
)
"""What follows from obeying these is judged by the records that the disks have afterwards."""


@dataclass(frozen=True, slots=True)
class TriageFacts:
    """What was so when a triage spoke."""

    offline: Collection[Name]
    disks: DiskReading
    said: Collection[SaidPartition]
    led_without: Mapping[int, int]
    """By broker, in how many partitions with a leader it is assigned and out of sync."""


def check_sentences(text: str, facts: TriageFacts) -> Iterator[JudgeFinding]:
    """What is false of the sentences of a triage."""
    number = len(facts.offline)
    if NOTHING.search(text) and number:
        yield _false("nothing is said to be offline", f"{number} partitions are")
    for broker, whole, of, condition in RETURNING.findall(text):
        if _number(of) != number:
            yield _false(f"{whole} of {of} come back whole", f"{number} are offline")
        able = 0
        for name in facts.offline:
            own = facts.disks.held(name).get(int(broker), NO_LOG).places
            readable = facts.disks.readable_logs(name).values()
            able += all(log.places <= own for log in readable)
        if not condition and "--before-return" not in text and _number(whole) > able:
            yield _false(f"b{broker} brings back {whole} whole", f"it has all of {able}")
    safe = sum(partition.verdict == "SAFE" for partition in facts.said)
    for kept, of in ELECTING.findall(text):
        if (_number(kept), _number(of)) != (safe, number):
            yield _false(f"{kept} of {of} lose nothing", f"{safe} of {number} are SAFE")
    for broker, led in LED.findall(text):
        true = facts.led_without.get(int(broker), 0)
        if _number(led) != true:
            yield _false(f"b{broker} is out of sync in {led} led partitions", f"it is in {true}")


def check_rescued(text: str, saved: Callable[[str], int]) -> Iterator[JudgeFinding]:
    """What is false of ``rescued 23 records of b6: PATH``; *saved* counts the records of a path."""
    for said, path in RESCUED.findall(text):
        if _number(said) != (there := saved(path)):
            yield _false(f"rescued {said} records to {path}", f"{there} are there")


def unjudged(text: str) -> Iterator[str]:
    """The claims of *text* that no pattern judges, each line once."""
    judged = (RETURNING, ELECTING, LED, NOTHING, RESCUED, BY_DISKS)
    for line in dict.fromkeys(text.splitlines()):
        if WORDS.search(line) and not any(pattern.search(line) for pattern in judged):
            yield line.strip()


def _number(text: str) -> int:
    return int(text.replace(",", ""))


def _false(said: str, true: str) -> JudgeFinding:
    return JudgeFinding("sentence", None, f"{said} was said, and {true}")
