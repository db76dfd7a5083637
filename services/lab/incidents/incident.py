"""An incident as a value: the cluster, its topics, what happens to it, and who repairs it how."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from typing import Any


class Happening(StrEnum):
    """What may happen to a cluster."""

    WRITE = "write"
    """Records to every partition that has a leader."""
    TRANSACT = "transact"
    """The same in one transaction, which `Step.end` commits, aborts or leaves open."""
    COMMIT = "commit offsets"
    """A consumer group commits the end of every partition that has a leader."""
    KILL = "kill"
    """SIGKILL, awaited until nothing counts on the brokers any more."""
    STOP = "stop"
    """A controlled shutdown."""
    STRAND = "strand"
    """A broker leads on while its followers hang, takes records by acks=1, and is killed."""
    RETURN = "return"
    """Brokers that were killed or stopped start again, with their disks."""
    UNCLEAN = "elect uncleanly"
    """Somebody elects the first live replica of every partition without leader."""
    LAST = "last leaders"
    """Brokers that lead are killed at once, before those in `Step.back` start again."""
    RETURN_EMPTY = "return empty"
    """Brokers start again with new, empty disks."""
    HANG = "hang"
    """SIGSTOP, awaited until the broker is fenced."""
    FAIL_DIR = "fail log dir"
    """A log directory of a running broker goes offline; `Step.count` says which."""
    CUT = "cut"
    """A broker loses its way to the controllers, is fenced, and serves clients on."""
    REASSIGN = "reassign"
    """Partitions without leader are to move to another broker, which cannot end."""
    CONTROLLER = "kill controller"
    """One of three controllers is killed."""
    POWER = "power cut"
    """Brokers that are down lose the last `Step.count` batches of every other log: unflushed."""
    UNREGISTER = "unregister"
    """Brokers that are down are forgotten by the cluster."""


class End(StrEnum):
    """How a transaction ends."""

    COMMIT = "commit"
    ABORT = "abort"
    OPEN = "open"


class Way(StrEnum):
    """Who recovers, and by which commands."""

    DROP_IN = "drop-in"
    """`kafka-unclean-recovery --automated-recovery`, as KIP-1275 has it."""
    AUTOMATED = "automated"
    """`breakglass unclean-recovery --automated-recovery`, with consents."""
    PLAN = "plan"
    """`triage`, `plan make`, `recover`, and what was saved put back."""
    KAFKA = "kafka"
    """Kafka's own tools."""


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that happens; what it cannot be done to is passed over."""

    act: Happening
    brokers: tuple[int, ...] = ()
    count: int = 0
    """Records for each partition."""
    acks: str = "all"
    end: End | None = None
    back: tuple[int, ...] = ()

    def __str__(self) -> str:
        words = [self.act.value, *(f"b{broker}" for broker in self.brokers)]
        if self.count:
            words.append(f"{self.count}")
        if self.acks != "all":
            words.append(f"acks={self.acks}")
        if self.end is not None:
            words.append(self.end.value)
        if self.back:
            words.append("back: " + " ".join(f"b{broker}" for broker in self.back))
        return " ".join(words)


@dataclass(frozen=True, slots=True)
class LabTopic:
    """A topic."""

    name: str
    assignments: tuple[tuple[int, ...], ...]
    """By partition, the first broker leading."""
    min_isr: int = 1
    compacted: bool = False
    compression: str = "none"
    """Of its producers."""
    never: int = 0
    """So many of its partitions, the last, are never written."""


@dataclass(frozen=True, slots=True)
class LabIncident:
    """A whole incident: the same value is played in the same way."""

    seed: int
    brokers: int
    controllers: int
    log_dirs: int
    topics: tuple[LabTopic, ...]
    steps: tuple[Step, ...]
    way: Way
    """How Breakglass recovers it."""
    curable: tuple[int, ...] = ()
    """Brokers that can be started, resumed or reconnected when the operator is asked to."""
    kill_at: int | None = None
    """Our command is killed by SIGKILL once its journal has so many lines, and resumed."""
    returning: int | None = None
    """A broker that starts by itself in the middle of the recovery."""
    slow: tuple[int, ...] = ()
    """Brokers that our commands reach by a slow link."""
    kafka_version: str = "4.3.1"
    midway: bool = False
    """The returning broker starts while the command that elects runs."""
    one_address: bool = False
    """Our commands are given the address of one live broker."""
    first: tuple[str, ...] = ()
    """Topics that are recovered first, while nobody starts a broker; then `again` happens."""
    again: tuple[Step, ...] = ()
    elsewhere: bool = False
    """What is left after that is recovered on another machine: no journal, no memory."""
    group_epochs: bool = False
    """The group commits the leader epochs of what it has read, too."""
    labels: tuple[str, ...] = field(default=())
    """What is remarkable about it, for the table."""


def to_json(incident: LabIncident) -> str:
    """The incident as one line of JSON."""
    return json.dumps(asdict(incident), separators=(",", ":"))


def from_json(text: str) -> LabIncident:
    """The incident that `to_json` wrote."""
    return from_document(json.loads(text))


def from_document(read: dict[str, Any]) -> LabIncident:
    """The incident of a JSON object."""
    values = {**read}
    values["topics"] = tuple(
        LabTopic(**{**topic, "assignments": tuple(map(tuple, topic["assignments"]))})
        for topic in read["topics"]
    )
    for name in ("steps", "again"):
        values[name] = tuple(
            Step(
                act=Happening(step["act"]),
                brokers=tuple(step["brokers"]),
                count=step["count"],
                acks=step["acks"],
                end=End(step["end"]) if step["end"] else None,
                back=tuple(step["back"]),
            )
            for step in read.get(name, ())
        )
    values["way"] = Way(read["way"])
    for name in ("curable", "slow", "labels", "first"):
        values[name] = tuple(read.get(name, ()))
    known = {member.name for member in fields(LabIncident)}
    return LabIncident(**{name: value for name, value in values.items() if name in known})
