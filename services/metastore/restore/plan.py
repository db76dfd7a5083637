"""What a restore would do to the topic that is there, and what that costs. Reads only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult

from breakglass.services.errors import ClusterError
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.metastore.alarms import dangers
from breakglass.services.metastore.records import CommandRecord
from breakglass.services.metastore.restore.live_servers import (
    LiveServers,
    look_for_servers,
    with_answers,
)
from breakglass.services.metastore.restore.server_info import ask_servers
from breakglass.services.metastore.restore.source import RestoreSource
from breakglass.services.metastore.settings import MetastoreSettings
from breakglass.services.metastore.topic_reader import TopicReader
from breakglass.services.metastore.topic_state import TopicState, read_topic_state

ASK_SECONDS = 20.0
END_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class PresentTopic:
    """The topic as it is now."""

    topic_id: str
    commands: int
    next_offset: int
    """Where its next command goes, as far as can be read."""
    replicas: int
    lost: int
    """Commands of it that the backup does not have at their place."""
    same: bool
    """It holds what the restore would put there, at the same offsets, and nothing endangers it."""


@dataclass(frozen=True, slots=True)
class MetastoreRestorePlan:
    """A restore, before anybody agreed to it."""

    cluster_id: str
    topic: str
    settings: MetastoreSettings
    source: RestoreSource
    present: PresentTopic | None
    """None: there is no such topic."""
    servers: LiveServers

    @property
    def phrase(self) -> str:
        """What has to be typed: the topic and how many of its commands are given up."""
        lost = 0 if self.present is None else self.present.lost
        running = " while servers run" if self.servers.seen else ""
        return f"{self.topic} lose {lost:,}{running}"

    @property
    def done(self) -> bool:
        """The topic is already what it should be."""
        return self.present is not None and self.present.same

    @property
    def replicas(self) -> int:
        """Of the new topic: as the one that is there, else as the server's properties say."""
        return self.settings.replicas if self.present is None else self.present.replicas


def make_plan(
    client: ReadClient,
    connection: Mapping[str, Any],
    settings: MetastoreSettings,
    source: RestoreSource,
    servers: Sequence[SplitResult] = (),
) -> MetastoreRestorePlan:
    """Look at the topic and for servers; *servers* are asked as well (`server_url`).

    Raises: Unreachable, NotAuthorized, ClusterError.
    """
    description = client.describe(Deadline.after(ASK_SECONDS))
    brokers = [one.id for one in description.brokers if one.fenced is not True]
    state = read_topic_state(client.sender, settings.topic, Deadline.after(ASK_SECONDS))
    present = None if state is None else look_at(connection, settings.topic, state, source)
    found = look_for_servers(client.sender, settings, brokers, Deadline.after(ASK_SECONDS))
    cluster_id, asked = description.cluster_id, None
    if servers:
        asked = ask_servers(servers, settings.service_id, cluster_id)
    found = with_answers(found, asked)
    return MetastoreRestorePlan(cluster_id, settings.topic, settings, source, present, found)


def look_at(
    connection: Mapping[str, Any], topic: str, state: TopicState, source: RestoreSource
) -> PresentTopic:
    """Read the topic, and compare it with what it would become."""
    wanted = source.records
    commands = equal = 0
    in_place = apart = False
    with TopicReader(connection, topic) as reader:
        deadline = Deadline.after(END_SECONDS)
        at_end, next_offset = False, 0
        in_place = True
        while not at_end:
            if deadline.passed:
                raise ClusterError(f"topic {topic} does not come to an end: try again")
            batch = reader.poll(0.5)
            at_end, next_offset = batch.at_end, batch.next_offset
            for record in batch.records:
                other = wanted[commands] if commands < len(wanted) else None
                apart = apart or other is None or not _same(record, other)
                in_place = in_place and other is not None and record.offset == other.offset
                equal += not apart
                commands += 1
    safe = not any(dangers(state, topic, None))
    same = safe and not apart and in_place and commands == len(wanted)
    return PresentTopic(
        state.topic_id, commands, next_offset, state.replicas, commands - equal, same
    )


def _same(one: CommandRecord, other: CommandRecord) -> bool:
    return (one.key, one.value) == (other.key, other.value)
