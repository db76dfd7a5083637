"""Suspends retention and compaction of topics while a checkpoint of them is copied (I10).

The control topic records a topic's own settings before they are changed, so that another process
can restore them after a crash. Only settings that are unchanged since are restored: an operator's
later change stays.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from uuid import UUID

from breakglass.services import patience
from breakglass.services.checkpoint.kafka.control import Control, RetentionHold
from breakglass.services.checkpoint.kafka.logs import (
    ensure_control,
    read_control,
    read_logs,
    write_control,
)
from breakglass.services.errors import ClusterError, OutcomeUnknown
from breakglass.services.kafka.cluster.settings import TopicConfig, read_topic_configs
from breakglass.services.kafka.marker_client import MarkerClient
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import Unknown

LOOK_SECONDS = 0.05
NEVER = str(2**63 - 1)
HELD: Mapping[str, str] = {
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "min.compaction.lag.ms": NEVER,
    "max.compaction.lag.ms": NEVER,
}
"""Brokers reject a minimum compaction lag that is greater than the maximum."""


@dataclass(frozen=True, slots=True)
class RetentionHolder:
    """Suspends retention of topics in the name of one *request* for a checkpoint."""

    client: ReadClient
    markers: MarkerClient
    """From a session that may change settings."""
    control_topic: str
    request: str

    def hold(self, topics: Collection[str]) -> None:
        """Keep all records of *topics* from now on; return when the brokers have confirmed.

        Raises:
            UsageError: a topic does not exist.
            NotAuthorized, ClusterError: the cluster refuses, or does not show the settings.
            OutcomeUnknown: no answer; `release` restores what was changed.
        """
        deadline = Deadline.after(patience.JOB)
        logs = read_logs(self.client, sorted(topics), deadline)
        ids = {state.partition.topic: state.topic_id.hex for state in logs.states}
        ensure_control(self.client, self.markers.topics, self.control_topic, deadline)
        own, known = self._own(topics, deadline), self._control(deadline)
        for topic, topic_id in sorted(ids.items()):
            settings = _before(topic_id, own[topic], known)
            self._note(RetentionHold(topic_id, self.request, topic, settings), deadline)
            self.markers.topics.configure(topic, HELD, (), deadline)
        while not all(
            HELD.items() <= document.items() for document in self._own(topics, deadline).values()
        ):
            if deadline.passed:
                raise OutcomeUnknown(
                    "retention was suspended, and no broker shows it yet: look at "
                    "their settings, then take the checkpoint again"
                )
            time.sleep(LOOK_SECONDS)

    def release(self) -> tuple[str, ...]:
        """End the holds of the request; returns the topics whose settings are restored.

        A topic that another request also holds stays held.

        Raises: as `hold`.
        """
        deadline = Deadline.after(patience.JOB)
        known = self._control(deadline)
        mine = [hold for hold in known.held.values() if hold.request == self.request]
        others = {hold.topic_id for hold in known.held.values() if hold.request != self.request}
        released = []
        for hold in mine:
            if hold.topic_id not in others and any(
                state.topic_id.hex == hold.topic_id
                for state in self.client.partitions((hold.topic,), deadline)
            ):
                assert hold.settings is not None
                back, defaults = put_back(
                    hold.settings, self._own([hold.topic], deadline)[hold.topic]
                )
                if back or defaults:
                    self.markers.topics.configure(hold.topic, back, defaults, deadline)
                released.append(hold.topic)
            self._note(RetentionHold(hold.topic_id, hold.request, hold.topic, None), deadline)
        return tuple(released)

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
    """The topic's settings before the first hold."""
    for hold in known.held.values():
        if hold.topic_id == topic_id and hold.settings is not None:
            return hold.settings
    return {name: own.get(name) for name in HELD}


def without_hold(topic_id: UUID | None, own: TopicConfig, known: Control) -> TopicConfig:
    """The topic's *own* settings as they are once no take holds its retention any more.

    A copy notes these: a topic that is restored from it would keep everything for ever otherwise.
    """
    if topic_id is None:
        return own
    back, defaults = put_back(_before(topic_id.hex, own, known), own)
    return {name: value for name, value in {**own, **back}.items() if name not in defaults}


def put_back(
    before: Mapping[str, str | None], now: Mapping[str, str]
) -> tuple[dict[str, str], list[str]]:
    """The settings to set again, and the settings to reset to the brokers' defaults."""
    ours = [name for name, value in HELD.items() if now.get(name) == value]
    set_again = {name: value for name in ours if (value := before.get(name)) is not None}
    return set_again, [name for name in ours if before.get(name) is None]
