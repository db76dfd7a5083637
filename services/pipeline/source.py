"""What there is to copy, asked once before the copy: topics, their ids and settings, log ends."""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from services.errors import UsageError
from services.kafka.cluster.topic_config import read_topic_configs
from services.kafka.read_client import ReadClient
from services.kafka.replicas.leader_ends import Unanswered, ask_brokers, by_leader
from services.kafka.replicas.list_offsets import (
    EARLIEST,
    LATEST,
    LEADER_ONLY,
    READ_COMMITTED,
    ListedOffset,
    OffsetError,
    list_offsets,
)
from services.kafka.wire.deadline import Deadline
from services.model import EpochHistory, PartitionState, TopicPartition, Unknown
from services.topic_backup.manifest import TopicIdentity

EPOCHS = 64
"""Leader epochs of a partition that are read back from the newest."""
INTERNAL = "__"
"""How the names of topics begin that a pattern does not choose."""


@dataclass(frozen=True, slots=True)
class WantedTopics:
    """Which topics are to be copied: by name, or all whose whole name fits a pattern."""

    names: tuple[str, ...] = ()
    pattern: str | None = None

    def choose(self, existing: Iterable[str]) -> list[str]:
        """The topics, in order.

        Raises:
            UsageError: a name that does not exist, a pattern that cannot be read.
        """
        there = set(existing)
        absent = sorted(set(self.names) - there)
        if absent:
            raise UsageError(f"There is no topic {', '.join(absent)}: check the spelling.")
        return sorted({*self.names, *self._fitting(there)})

    def _fitting(self, there: Iterable[str]) -> list[str]:
        if self.pattern is None:
            return []
        try:
            pattern = re.compile(self.pattern)
        except re.error as error:
            raise UsageError(f"--topics-regex {self.pattern!r}: {error}.") from None
        return [one for one in there if pattern.fullmatch(one) and not one.startswith(INTERNAL)]


@dataclass(frozen=True, slots=True)
class PartitionSource:
    """One partition as its leader has it now."""

    partition: TopicPartition
    leader: int
    log_start: int
    stable_end: int
    """The last stable offset: no transaction before it is open (B3)."""
    high_watermark: int
    epochs: EpochHistory | Unknown
    newest_ms: int | None | Unknown
    """The latest timestamp of its records."""
    leader_epoch: int | None = None
    """In which its leader leads; None where the broker does not say."""

    @property
    def held_back(self) -> int:
        """Offsets that an open transaction keeps from being read as committed."""
        return self.high_watermark - self.stable_end


@dataclass(frozen=True, slots=True)
class TopicSource:
    """One topic as it is now."""

    identity: TopicIdentity
    partitions: tuple[PartitionSource, ...]
    unread: Mapping[int, str]
    """Partitions that cannot be copied now, with the reason."""

    @property
    def name(self) -> str:
        return self.identity.topic

    @property
    def compacted(self) -> bool:
        """Whether offsets may be missing because later records replaced theirs."""
        return "compact" in self.identity.config.get("cleanup.policy", "")


def read_sources(
    client: ReadClient,
    wanted: WantedTopics,
    deadline: Deadline,
    numbers: Container[int] | None = None,
    *,
    partial: bool = False,
) -> tuple[TopicSource, ...]:
    """The topics that are *wanted*, as they are now; only partitions of *numbers*, or all.

    With *partial*, the partitions of a leader that does not answer are `TopicSource.unread`.

    Raises:
        UsageError: as `WantedTopics.choose`.
        Unreachable, NotAuthorized: no broker serves its metadata, a leader does not answer, or an
            ACL is missing.
    """
    cluster_id = client.describe(deadline).cluster_id
    # A pattern needs the names of all topics; a few names do not.
    states = client.partitions(() if wanted.pattern else wanted.names, deadline)
    topics = wanted.choose({one.partition.topic for one in states})
    held = [one for one in states if one.partition.topic in set(topics)]
    asked = [one for one in held if numbers is None or one.partition.partition in numbers]
    configs = read_topic_configs(client.sender, topics, deadline) if topics else {}
    read = _Reading(client, asked, deadline)
    if not partial:
        read.require_answers()
    return tuple(_topic(cluster_id, topic, held, configs[topic], read) for topic in topics)


def _topic(
    cluster_id: str,
    topic: str,
    states: Sequence[PartitionState],
    config: Mapping[str, str] | Unknown,
    read: _Reading,
) -> TopicSource:
    own = [one for one in states if one.partition.topic == topic]
    found = {one.partition.partition: read.of(one) for one in own if read.asked(one)}
    identity = TopicIdentity(
        topic=topic,
        cluster_id=cluster_id,
        topic_id=own[0].topic_id,
        partition_count=len(own),
        config={} if isinstance(config, Unknown) else config,
    )
    return TopicSource(
        identity,
        tuple(one for _, one in sorted(found.items()) if isinstance(one, PartitionSource)),
        {number: one for number, one in sorted(found.items()) if isinstance(one, str)},
    )


class _Reading:
    """What all leaders say of their partitions, a few requests for each leader."""

    def __init__(
        self, client: ReadClient, states: Sequence[PartitionState], deadline: Deadline
    ) -> None:
        self._client, self._deadline = client, deadline
        self._asked = {one.partition: one.topic_id for one in states}
        self._answers = ask_brokers(by_leader(states), self._ask)

    def require_answers(self) -> None:
        """Return if every leader answered.

        Raises:
            BreakglassError: the error of the first leader that did not answer.
        """
        for answer in self._answers.values():
            if isinstance(answer, Unanswered):
                raise answer.error

    def asked(self, state: PartitionState) -> bool:
        """Whether it is among the partitions that are read."""
        return state.partition in self._asked

    def of(self, state: PartitionState) -> PartitionSource | str:
        """What is known of a partition, or why nothing is."""
        if state.leader is None:
            return "offline: no leader serves it"
        answer = self._answers[state.partition]
        return answer.reason if isinstance(answer, Unknown) else answer

    def _ask(
        self, leader: int, asked: Collection[TopicPartition]
    ) -> dict[TopicPartition, PartitionSource | Unknown]:
        partitions = {one: self._asked[one] for one in asked}

        def ends(timestamp: int, isolation: int = 0) -> dict[TopicPartition, _Told]:
            return list_offsets(
                self._client.sender,
                leader,
                partitions,
                timestamp,
                self._deadline,
                replica_id=LEADER_ONLY,
                isolation_level=isolation,
            )

        # The stable end first: the high watermark, asked later, is never before it.
        starts, stable, high = ends(EARLIEST), ends(LATEST, READ_COMMITTED), ends(LATEST)
        replicas = self._client.replicas_on(leader)
        logs = replicas.read(partitions, self._deadline)
        replicas.deepen(partitions, EPOCHS, self._deadline)
        answers: dict[TopicPartition, PartitionSource | Unknown] = {}
        for one in partitions:
            start, end, mark = starts[one], stable[one], high[one]
            if isinstance(start, OffsetError):
                answers[one] = start
            elif isinstance(end, OffsetError):
                answers[one] = end
            elif isinstance(mark, OffsetError):
                answers[one] = mark
            else:
                answers[one] = PartitionSource(
                    partition=one,
                    leader=leader,
                    log_start=start.offset,
                    stable_end=end.offset,
                    high_watermark=mark.offset,
                    epochs=replicas.history(one),
                    newest_ms=logs[one].newest_ms,
                    leader_epoch=end.leader_epoch if end.leader_epoch >= 0 else None,
                )
        return answers


_Told = ListedOffset | OffsetError
