"""Writes topic settings, journals each before it is sent, and waits until brokers show them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from breakglass.services import patience
from breakglass.services.errors import BreakglassError, ClusterError, Unreachable
from breakglass.services.guard.act import TargetResult, result_of
from breakglass.services.guard.journal import Journal
from breakglass.services.guard.steps import PUT_SETTING_BACK
from breakglass.services.kafka.admin_client import TOPICS_A_REQUEST, SettingClient
from breakglass.services.kafka.cluster.settings import LayeredSetting, read_layered
from breakglass.services.kafka.election_client import Reply
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import PartitionState, TopicPartition, Unknown
from breakglass.services.recovery.settings.changes import SettingChange, journalled

LOOK_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class SettingOutcome:
    """The result of one change."""

    change: SettingChange
    result: TargetResult
    reason: str = ""


@dataclass(frozen=True, slots=True)
class SettingWriter:
    """Writes through *client*; *partitions* are what the journal names for each topic."""

    client: SettingClient
    journal: Journal
    partitions: Sequence[TopicPartition]

    def write(self, step: str, changes: Sequence[SettingChange]) -> list[SettingOutcome]:
        """Write *changes*; one result for each. After a failure nothing more is sent.

        Raises:
            StorageError: the journal cannot be written; nothing more was sent.
        """
        return list(self._sent(step, changes, lambda change: change.written))

    def put_back(self, changes: Sequence[SettingChange]) -> list[SettingOutcome]:
        """Give each topic its earlier value. Raises as `write`."""
        return list(self._sent(PUT_SETTING_BACK, changes, lambda change: change.before))

    def _sent(
        self,
        step: str,
        changes: Sequence[SettingChange],
        value: Callable[[SettingChange], str | None],
    ) -> Iterator[SettingOutcome]:
        stopped = ""
        ordered = sorted(changes, key=lambda change: (change.name, change.topic))
        for name, named in groupby(ordered, key=lambda change: change.name):
            same = list(named)
            for first in range(0, len(same), TOPICS_A_REQUEST):
                batch = same[first : first + TOPICS_A_REQUEST]
                if stopped:
                    yield from (_not_sent(change, stopped) for change in batch)
                    continue
                values = {change.topic: value(change) for change in batch}
                done = self._batch(step, name, batch, values)
                stopped = next(
                    (outcome.reason for outcome in done if outcome.result is not TargetResult.DONE),
                    "",
                )
                yield from done

    def _batch(
        self, step: str, name: str, batch: Sequence[SettingChange], values: Mapping[str, str | None]
    ) -> list[SettingOutcome]:
        touched = [partition for partition in self.partitions if partition.topic in values]
        items = {partition: {"value": values[partition.topic]} for partition in touched}
        request = self.journal.request(step, items, settings=journalled(batch))
        try:
            replies = self.client.write(name, values, Deadline.after(patience.COMMAND))
            outcomes = [_outcome(change, replies[change.topic]) for change in batch]
        except Unreachable as error:
            outcomes = [_not_sent(change, str(error)) for change in batch]
        except BreakglassError as error:
            outcomes = [SettingOutcome(change, result_of(error), str(error)) for change in batch]
        shown = _shown(self.client.reading(), name, values, outcomes)
        by_topic = {outcome.change.topic: outcome for outcome in shown}
        told = {
            partition: {
                "result": by_topic[partition.topic].result,
                "reason": by_topic[partition.topic].reason,
            }
            for partition in touched
        }
        self.journal.outcome(request, told)
        return shown


def _outcome(change: SettingChange, reply: Reply) -> SettingOutcome:
    if reply.accepted:
        return SettingOutcome(change, TargetResult.DONE)
    result = TargetResult.UNKNOWN if reply.unsettled else TargetResult.FAILED
    return SettingOutcome(change, result, str(reply))


def _not_sent(change: SettingChange, reason: str) -> SettingOutcome:
    return SettingOutcome(change, TargetResult.FAILED, f"nothing was sent: {reason}")


def _shown(
    client: ReadClient,
    name: str,
    values: Mapping[str, str | None],
    outcomes: Sequence[SettingOutcome],
) -> list[SettingOutcome]:
    """*outcomes*, in which an accepted change is unknown until a broker shows it."""
    waited = {outcome.change.topic for outcome in outcomes if outcome.result is TargetResult.DONE}
    deadline = Deadline.after(patience.REQUEST)
    while waited:
        try:
            read = read_layered(client.sender, name, sorted(waited), deadline)
        except BreakglassError:
            break
        waited -= {topic for topic, told in read.items() if own_value(told) == values[topic]}
        if deadline.passed:
            break
        if waited:
            time.sleep(LOOK_SECONDS)
    why = "it was accepted, and no broker shows it yet: look at the topic's settings"
    return [
        replace(outcome, result=TargetResult.UNKNOWN, reason=why)
        if outcome.change.topic in waited
        else outcome
        for outcome in outcomes
    ]


def own_value(told: LayeredSetting | Unknown) -> str | Unknown | None:
    """The topic's own value, or why it is not known."""
    return told if isinstance(told, Unknown) else told.own


def why_not_ours(
    change: SettingChange, states: Sequence[PartitionState], told: LayeredSetting | Unknown | None
) -> str:
    """Why *change* is not put back; empty if the topic still has the written value.

    Raises:
        ClusterError: the topic's setting cannot be read.
    """
    same = [state for state in states if state.partition.topic == change.topic]
    if told is None or not any(str(state.topic_id) == change.topic_id for state in same):
        return "the topic is gone, or was created again"
    if isinstance(told, Unknown):
        raise ClusterError(
            f"{change.name} of topic {change.topic} cannot be read ({told.reason}), so it "
            "may not be ours any more: nothing was put back; resume once it can be read"
        )
    if told.own == change.before:
        return "it has what it had before"
    if told.own != change.written:
        own = "no value of its own" if told.own is None else told.own
        return f"somebody has set it since: it has {own}"
    return ""
