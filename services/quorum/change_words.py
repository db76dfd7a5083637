"""Says in words what became of topics, partitions, settings and the rest in a stretch of the log.

No value that may be a secret is in the words: of SCRAM credentials the user and the mechanism, of
settings whose names tell of secrets the name alone.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any
from uuid import UUID

from breakglass.services.model import kafka_id
from breakglass.services.quorum.image import (
    TOPIC_SETTINGS,
    BrokerRegistration,
    Key,
    MetadataChange,
    PartitionMetadata,
)


class ChangeKind(StrEnum):
    """What a change is of, in the order of reading."""

    TOPIC_MADE = "topics created"
    TOPIC_DELETED = "topics deleted"
    TOPIC_GROWN = "topics grown"
    ISR = "ISR and leader changes"
    ASSIGNMENT = "assignment changes"
    SETTINGS = "settings"
    ACL = "ACLs"
    SCRAM = "SCRAM users"
    QUOTA = "quotas"
    TOKEN = "delegation tokens"  # noqa: S105 (a kind of change)
    PRODUCER_IDS = "producer id blocks"
    BROKER = "registrations"
    FEATURE = "features"


@dataclass(frozen=True, slots=True)
class SaidChange:
    """One change in words."""

    kind: ChangeKind
    what: str
    at_ms: int | None
    """The time of its last record; None: it is in a snapshot, which has no times."""
    partitions: tuple[tuple[UUID, int], ...] = ()
    """Those that it makes, deletes or moves: topic ids and numbers."""


_SECRET = re.compile(r"password|secret|jaas|credential|token|\.key$|keystore\.key", re.IGNORECASE)
_RESOURCES = {TOPIC_SETTINGS: "topic", 4: "broker", 8: "broker logger", 16: "client metrics"}
_RESOURCES[32] = "group"
_MECHANISMS = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
_ACL_RESOURCES = ("?", "any", "topic", "group", "cluster", "transactional id", "token", "user")
_PATTERNS = {3: "literal", 4: "prefixed"}
_OPERATIONS = (
    "?",
    "any",
    "all",
    "read",
    "write",
    "create",
    "delete",
    "alter",
    "describe",
    "cluster action",
    "describe configs",
    "alter configs",
    "idempotent write",
    "create tokens",
    "describe tokens",
    "two-phase commit",
)
_PERMISSIONS = ("?", "any", "deny", "allow")


def said_changes(
    changes: Iterable[MetadataChange], values: Mapping[Key, Any]
) -> tuple[SaidChange, ...]:
    """*changes* in words, by kind; *values* is the state after them."""
    found = list(changes)
    names: dict[UUID, str] = {key[1]: name for key, name in values.items() if key[0] == "topic"}
    names |= {one.key[1]: str(one.before) for one in found if one.key[0] == "topic" and one.before}
    topics = {one.key[1]: one for one in found if one.key[0] == "topic"}
    partitions: dict[UUID, list[MetadataChange]] = defaultdict(list)
    said: list[SaidChange] = []
    for one in found:
        if one.key[0] == "partition":
            partitions[one.key[1]].append(one)
        elif one.key[0] != "topic":
            said += _WORDS[one.key[0]](one)
    for topic_id in {**topics, **partitions}:
        name = names.get(topic_id, kafka_id(topic_id))
        said += _topic(name, topic_id, topics.get(topic_id), partitions[topic_id])
    order = list(ChangeKind)
    return tuple(sorted(said, key=lambda one: order.index(one.kind)))


def _topic(
    name: str, topic_id: UUID, topic: MetadataChange | None, partitions: list[MetadataChange]
) -> Iterator[SaidChange]:
    count = len(partitions)
    noun = "partition" if count == 1 else "partitions"
    if topic is not None:
        what = f"{name} ({count:,} {noun}, id {kafka_id(topic_id)})"
        kind = ChangeKind.TOPIC_MADE if topic.before is None else ChangeKind.TOPIC_DELETED
        yield SaidChange(kind, what, topic.last_ms, tuple(one.key[1:] for one in partitions))
        return
    made = [one for one in partitions if one.before is None]
    if made:
        numbers = sorted(one.key[2] for one in made)
        what = f"{name} from {numbers[0]:,} to {numbers[-1] + 1:,} partitions"
        keys = tuple(one.key[1:] for one in made)
        yield SaidChange(ChangeKind.TOPIC_GROWN, what, made[-1].last_ms, keys)
    for one in partitions:
        match one.before, one.after:
            case PartitionMetadata() as old, PartitionMetadata() as new:
                for said in _partition(f"{name}-{one.key[2]}", old, new, one.last_ms):
                    yield replace(said, partitions=(one.key[1:],))


def _partition(
    name: str, old: PartitionMetadata, new: PartitionMetadata, at_ms: int | None
) -> Iterator[SaidChange]:
    parts = [
        f"{word} {_ids(mine)} -> {_ids(its)}"
        for word, mine, its in (("ISR", old.isr, new.isr), ("ELR", old.elr, new.elr))
        if mine != its
    ]
    if (old.leader, old.leader_epoch) != (new.leader, new.leader_epoch):
        epochs = f"(leader epoch {old.leader_epoch} -> {new.leader_epoch})"
        parts.append(f"leader {_ids((old.leader,))} -> {_ids((new.leader,))} {epochs}")
    if parts:
        yield SaidChange(ChangeKind.ISR, f"{name}: {', '.join(parts)}", at_ms)
    if (old.replicas, old.adding, old.removing) != (new.replicas, new.adding, new.removing):
        what = f"{name}: replicas {_ids(old.replicas)} -> {_ids(new.replicas)}"
        if new.adding or new.removing:
            what += f" (adding {_ids(new.adding)}, removing {_ids(new.removing)})"
        yield SaidChange(ChangeKind.ASSIGNMENT, what, at_ms)


def _ids(brokers: tuple[int, ...]) -> str:
    return ",".join("none" if one == -1 else str(one) for one in brokers) or "none"


def _settings(change: MetadataChange) -> Iterator[SaidChange]:
    _, kind, name = change.key
    where = f"{_RESOURCES.get(kind, f'resource type {kind}')} {name or '(default)'}"
    old: Mapping[str, str] = change.before or {}  # type: ignore[assignment]
    new: Mapping[str, str] = change.after or {}  # type: ignore[assignment]
    for key in sorted(old.keys() | new.keys()):
        if old.get(key) != new.get(key):
            secret = _SECRET.search(key)
            values = [
                "unset" if value is None else "(not shown)" if secret else value
                for value in (old.get(key), new.get(key))
            ]
            what = f"{where}: {key} {values[0]} -> {values[1]}"
            yield SaidChange(ChangeKind.SETTINGS, what, change.last_ms)


def _acl(change: MetadataChange) -> Iterator[SaidChange]:
    value: Any = change.after or change.before
    kind, name, pattern, principal, host, operation, permission = value
    words = (
        _named(_PERMISSIONS, permission),
        principal,
        _named(_OPERATIONS, operation),
        "on",
        _named(_ACL_RESOURCES, kind),
        name,
        f"({_PATTERNS.get(pattern, pattern)}) from {host}",
    )
    yield SaidChange(ChangeKind.ACL, f"{_verb(change)} {' '.join(words)}", change.last_ms)


def _named(names: tuple[str, ...], number: int) -> str:
    return names[number] if 0 <= number < len(names) else f"number {number}"


def _verb(change: MetadataChange) -> str:
    if change.before is None:
        return "added"
    return "removed" if change.after is None else "changed"


def _scram(change: MetadataChange) -> Iterator[SaidChange]:
    _, user, mechanism = change.key
    words = f"{_verb(change)} {user} ({_MECHANISMS.get(mechanism, f'mechanism {mechanism}')})"
    yield SaidChange(ChangeKind.SCRAM, words, change.last_ms)


def _quota(change: MetadataChange) -> Iterator[SaidChange]:
    _, entity, key = change.key
    whose = ", ".join(f"{kind} {name or '(default)'}" for kind, name in entity)
    values = ("unset" if one is None else f"{one:g}" for one in (change.before, change.after))
    yield SaidChange(ChangeKind.QUOTA, f"{whose}: {key} {' -> '.join(values)}", change.last_ms)


def _broker(change: MetadataChange) -> Iterator[SaidChange]:
    broker = f"broker {change.key[1]}"
    match change.before, change.after:
        case _, None:
            what = f"{broker} unregistered"
        case BrokerRegistration() as old, BrokerRegistration() as new if old.epoch == new.epoch:
            states = [
                f"{'' if is_so else 'no longer '}{word}"
                for word, was_so, is_so in (
                    ("fenced", old.fenced, new.fenced),
                    ("in controlled shutdown", old.stopping, new.stopping),
                )
                if was_so != is_so
            ]
            what = f"{broker} {' and '.join(states) or 'changed'}"
        case _, BrokerRegistration() as new:
            what = f"{broker} registered at broker epoch {new.epoch:,}"
            what += ", fenced" if new.fenced else ""
        case _:
            what = f"{broker} changed"
    yield SaidChange(ChangeKind.BROKER, what, change.last_ms)


def _plain(kind: ChangeKind, noun: str) -> Callable[[MetadataChange], Iterator[SaidChange]]:
    """Words of a change that has one number, or none that says anything."""

    def words(change: MetadataChange) -> Iterator[SaidChange]:
        what = " ".join([noun, *map(str, change.key[1:])])
        if isinstance(change.after, int) or isinstance(change.before, int):
            old, new = (
                "none" if one is None else f"{one:,}" for one in (change.before, change.after)
            )
            what += f" {old} -> {new}"
        else:
            what += f" {_verb(change)}"
        yield SaidChange(kind, what, change.last_ms)

    return words


_WORDS: dict[str, Callable[[MetadataChange], Iterator[SaidChange]]] = {
    "settings": _settings,
    "acl": _acl,
    "scram": _scram,
    "quota": _quota,
    "token": _plain(ChangeKind.TOKEN, "token"),
    "producer ids": _plain(ChangeKind.PRODUCER_IDS, "next producer id"),
    "broker": _broker,
    "controller": _plain(ChangeKind.BROKER, "controller"),
    "feature": _plain(ChangeKind.FEATURE, "feature"),
}
