"""Offline partitions in one line, for tables: ``b1 last down, b2 0:100 1:150 hw90 | gone 1``.

A replica is its broker, then words. ``0:100`` is an epoch with the offset where it ends. What is
committed ends with the log unless ``hw`` says otherwise. A replica that is ``down`` (fenced) or
``hung`` (not fenced) is unread; epochs beside these words are what it reported before.
Words after the bar are about the partition and the cluster.
"""

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from breakglass.services.model import (
    Forfeited,
    LogContents,
    PartitionEvidence,
    Reassignment,
    ReplicaLog,
    Role,
    Silent,
    TopicPartition,
    Unknown,
)
from breakglass.services.recovery.judgement.assessment import Assessment
from breakglass.services.recovery.judgement.succession import Circumstances, PassedOver
from breakglass.services.recovery.judgement.verdict import assess
from breakglass.services.snapshot import Quorum
from tests.unit.recovery.replicas import HEALTHY, PLAIN, log, offline, silent, without_epochs

ROLES = {"isr": Role.ISR, "elr": Role.ELR, "last": Role.LAST_KNOWN_ELR}
WORD = re.compile("down|hung|fenced[?]?|empty|hw[?]|no-dir|cut-off|forfeited|whole|told")
FIGURE = re.compile(r"(from|hw|end|corrupt)(\d+)")
MARK_LOST = Unknown("high watermark 0 after kill -9")
NO_QUORUM = Quorum(leader=None, leader_epoch=7, high_watermark=9, voters=())
QUORUMS: dict[str, Quorum | Unknown] = {
    "no quorum": NO_QUORUM,
    "silent quorum": Silent("the controller quorum does not answer"),
    "unread quorum": Unknown("DESCRIBE on the cluster is missing"),
}
PARTITION: dict[str, dict[str, Any]] = {
    "moving": {"reassignment": Reassignment((4,), ())},
    "moving?": {"reassignment": Unknown("DESCRIBE on the cluster is missing")},
    "internal": {"topic": "__consumer_offsets"},
    "unclean": {"settings": replace(PLAIN, unclean_election=True)},
    "unclean?": {"settings": replace(PLAIN, unclean_election=Unknown("it was not read"))},
    "compacted": {"settings": replace(PLAIN, compacted=True)},
}


def replica(text: str) -> ReplicaLog:
    """One replica, as the module says."""
    name, *words = text.split()
    broker, plain = int(name.removeprefix("b")), {word for word in words if ":" not in word}
    figures = {found[1]: int(found[2]) for word in plain if (found := FIGURE.fullmatch(word))}
    for word in plain:
        assert word in ROLES or WORD.fullmatch(word) or FIGURE.fullmatch(word), text
    epochs = [(int(epoch), int(end)) for epoch, _, end in (w.partition(":") for w in words) if end]
    role = next((role for word, role in ROLES.items() if word in plain), Role.STALE)
    fenced = Unknown("not told") if "fenced?" in plain else bool({"fenced", "down"} & plain)
    start = figures.get("from", 0)
    if "end" in figures:
        return replace(without_epochs(broker, figures["end"], role=role), fenced=fenced)
    read = log(
        broker,
        *epochs,
        start=start,
        hw=MARK_LOST if "hw?" in plain else figures.get("hw"),
        role=role,
        fenced=fenced,
        log_dir_online="no-dir" not in plain,
        end=start,
    )
    if {"down", "hung"} & plain:
        heard = read if epochs or "told" in plain else None
        online = False if "no-dir" in plain else None
        made = silent(broker, role=role, fenced=fenced, log_dir_online=online, last_heard=heard)
        forfeited = Forfeited("it would destroy what others hold")
        made = replace(made, log_end=forfeited) if "forfeited" in plain else made
        return replace(made, reachable="cut-off" in plain)
    if "corrupt" in figures:
        at = figures["corrupt"]
        return replace(read, contents=LogContents(min(at, 0), at, at, "its CRC differs"))
    assert isinstance(read.log_end, int)
    return replace(read, contents=LogContents(0, read.log_end)) if "whole" in plain else read


@dataclass(frozen=True)
class Incident:
    """An offline partition and what holds for its cluster."""

    evidence: PartitionEvidence
    circumstances: Circumstances

    @property
    def judged(self) -> Assessment:
        return assess(self.evidence, self.circumstances)


def incident(text: str, **more: Any) -> Incident:
    """The partition that *text* describes; *more* as `offline` takes it."""
    replicas, _, words = text.partition(" | ")
    gone: dict[int, str] = {}
    copied: dict[int, PassedOver] = {}
    noted: tuple[int, ...] = ()
    circumstances = HEALTHY
    for word in filter(None, words.split(", ")):
        name, _, number = word.rpartition(" ")
        if name == "gone":
            gone[int(number)] = "declared gone"
        elif name in ("copy", "check"):
            names = (TopicPartition("carts", 0),)
            proved = name == "copy"
            copied[int(number)] = PassedOver(int(number), names, 0, "journal x", proved)
        elif name == "noted":
            noted = (int(number),)
        elif name == "unregistered":
            more["unregistered"] = (int(number),)
        elif name in ("floor", "epoch", "partition"):
            places = {"floor": "floor", "epoch": "leader_epoch", "partition": "number"}
            more[places[name]] = int(number)
        elif word == "early":
            circumstances = replace(circumstances, deadline_passed=False)
        elif word in QUORUMS:
            circumstances = replace(circumstances, quorum=QUORUMS[word])
        else:
            more |= PARTITION[word]
    evidence = offline(*map(replica, replicas.split(", ")), **more)
    if noted:
        evidence = replace(evidence, state=replace(evidence.state, last_known_elr=noted))
    return Incident(evidence, replace(circumstances, ruled_out=gone, copy_first=copied))


def blocks(name: str) -> dict[str, list[str]]:
    """The indented lines of a file beside this one, below each sentence."""
    found: dict[str, list[str]] = {}
    for line in filter(None, Path(__file__).with_name(name).read_text().splitlines()):
        if line.startswith(" "):
            found[list(found)[-1]].append(line.strip())
        else:
            assert line not in found, line
            found[line] = []
    return found
