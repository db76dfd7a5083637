"""Holds the retention and compaction of topics back while a checkpoint of them is copied (I10).

What a topic had of its own is written into the control topic before anything is changed, so that
whoever comes after one that was killed can put it back. Only what still is as it was set then is
put back: what somebody has changed meanwhile is theirs.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from breakglass.services.checkpoint.kafka.control import Control, RetentionHold
from breakglass.services.checkpoint.kafka.control_log import (
    ensure_control,
    read_control,
    write_control,
)
from breakglass.services.checkpoint.kafka.log_ends import read_logs
from breakglass.services.errors import ClusterError, OutcomeUnknown
from breakglass.services.kafka.cluster.topic_config import TopicConfig, read_topic_configs
from breakglass.services.kafka.marker_client import MarkerClient
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import Unknown

ASK_SECONDS = 60.0
LOOK_SECONDS = 0.05
NEVER = str(2**63 - 1)
HELD: Mapping[str, str] = {
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "min.compaction.lag.ms": NEVER,
    "max.compaction.lag.ms": NEVER,
}
"""Brokers refuse a least lag above the greatest one."""


@dataclass(frozen=True, slots=True)
class RetentionHolder:
    """Holds topics back in the name of one *request* for a checkpoint."""

    client: ReadClient
    markers: MarkerClient
    """Of a session that may change settings."""
    control_topic: str
    request: str

    def hold(self, topics: Collection[str]) -> None:
        """Let nothing of *topics* go from now on; back when the brokers say so.

        Raises:
            UsageError: one of them does not exist.
            NotAuthorized, ClusterError: the cluster refuses, or hides the settings.
            OutcomeUnknown: no answer; `release` puts back what was changed.
        """
        deadline = Deadline.after(ASK_SECONDS)
        logs = read_logs(self.client, sorted(topics), deadline)
        ids = {one.partition.topic: one.topic_id.hex for one in logs.states}
        ensure_control(self.client, self.markers.topics, self.control_topic, deadline)
        own, known = self._own(topics, deadline), self._control(deadline)
        for topic, topic_id in sorted(ids.items()):
            settings = _before(topic_id, own[topic], known)
            self._note(RetentionHold(topic_id, self.request, topic, settings), deadline)
            self.markers.topics.configure(topic, HELD, (), deadline)
        while not all(HELD.items() <= one.items() for one in self._own(topics, deadline).values()):
            if deadline.passed:
                raise OutcomeUnknown(
                    "retention was suspended, and no broker shows it yet: look at "
                    "their settings, then take the checkpoint again"
                )
            time.sleep(LOOK_SECONDS)

    def release(self) -> tuple[str, ...]:
        """Put back what was held in the name of the request; the topics that have it again.

        A topic that another request holds, too, stays held.

        Raises: as `hold`.
        """
        deadline = Deadline.after(ASK_SECONDS)
        known = self._control(deadline)
        mine = [one for one in known.held.values() if one.request == self.request]
        others = {one.topic_id for one in known.held.values() if one.request != self.request}
        released = []
        for one in mine:
            if one.topic_id not in others and self._is_there(one, deadline):
                self._put_back(one, deadline)
                released.append(one.topic)
            self._note(RetentionHold(one.topic_id, one.request, one.topic, None), deadline)
        return tuple(released)

    def _put_back(self, one: RetentionHold, deadline: Deadline) -> None:
        assert one.settings is not None
        back, defaults = put_back(one.settings, self._own([one.topic], deadline)[one.topic])
        if back or defaults:
            self.markers.topics.configure(one.topic, back, defaults, deadline)

    def _is_there(self, one: RetentionHold, deadline: Deadline) -> bool:
        states = self.client.partitions((one.topic,), deadline)
        return any(state.topic_id.hex == one.topic_id for state in states)

    def _own(self, topics: Collection[str], deadline: Deadline) -> dict[str, TopicConfig]:
        told = read_topic_configs(self.client.sender, sorted(topics), deadline)
        found = {}
        for topic, settings in told.items():
            if isinstance(settings, Unknown):
                raise ClusterError(
                    f"the settings of topic {topic} cannot be read ({settings.reason}), so they "
                    "could not be put back: nothing was changed of it"
                )
            found[topic] = settings
        return found

    def _control(self, deadline: Deadline) -> Control:
        return read_control(self.client, self.control_topic, deadline) or Control()

    def _note(self, held: RetentionHold, deadline: Deadline) -> None:
        write_control(self.client, self.markers, self.control_topic, held.record, deadline)


def _before(topic_id: str, own: TopicConfig, known: Control) -> Mapping[str, str | None]:
    """What the topic had before anybody held it."""
    for one in known.held.values():
        if one.topic_id == topic_id and one.settings is not None:
            return one.settings
    return {name: own.get(name) for name in HELD}


def put_back(
    before: Mapping[str, str | None], now: Mapping[str, str]
) -> tuple[dict[str, str], list[str]]:
    """The settings to be set again, and those to be left to the brokers' defaults again."""
    ours = [name for name, value in HELD.items() if now.get(name) == value]
    set_again = {name: value for name in ours if (value := before.get(name)) is not None}
    return set_again, [name for name in ours if before.get(name) is None]
