"""Holding a triage against the truth: words, actions, every replica, the price of every choice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from breakglass.console.demo_check import wrong_verdicts
from breakglass.services.lab.truth import PartitionTruth, ReplicaTruth, TrueVerdict, Truth
from breakglass.services.model import EpochHistory, ReplicaLog, TopicPartition, known
from breakglass.services.recovery.judgement.assessment import Action, Assessment, Verb
from breakglass.services.recovery.triage import Triage

ELECTIONS = (TrueVerdict.SAFE, TrueVerdict.LOSS)


def differences(found: Triage, truth: Truth, partitions: Iterable[PartitionTruth]) -> list[str]:
    """A sentence for everything that *found* says of *partitions* and *truth* does not."""
    chosen = tuple(partitions)
    names = {one.partition for one in chosen}
    said = {one.partition: one for one in found.assessments if one.partition in names}
    apart = [*_wrong_presence(said.keys(), chosen)]
    offline = tuple(one for one in chosen if one.partition in said)
    for one in offline:
        apart += _of_partition(said[one.partition], one)
    return [*apart, *wrong_verdicts(said.values(), _of_these(truth, offline))]


def differences_without(found: Triage, partitions: Iterable[PartitionTruth]) -> list[str]:
    """The same of the words alone, once the brokers to start are known never to return."""
    said = {one.partition: one for one in found.assessments}
    return [
        f"{one.partition}: said {said[one.partition].verdict} {said[one.partition].action}, true "
        f"is {_last_word(one)} b{one.expectation.designee} ({one.expectation.why})"
        for one in partitions
        if not _says_last_word(said[one.partition], one)
    ]


def _last_word(truth: PartitionTruth) -> TrueVerdict | None:
    return truth.expectation.if_gone or truth.expectation.verdict


def _says_last_word(said: Assessment, truth: PartitionTruth) -> bool:
    word = _last_word(truth)
    if word is None or said.verdict.value != word.value:
        return False
    return word not in ELECTIONS or said.action == Action(Verb.ELECT, truth.expectation.designee)


def _wrong_presence(
    said: Iterable[TopicPartition], truths: tuple[PartitionTruth, ...]
) -> Iterator[str]:
    judged = set(said)
    for one in truths:
        offline = one.expectation.verdict is not None
        if offline != (one.partition in judged):
            yield f"{one.partition}: {'not judged' if offline else 'judged'}"


def _of_these(truth: Truth, partitions: tuple[PartitionTruth, ...]) -> Truth:
    return Truth(truth.cluster_id, truth.kafka_version, truth.scenarios, truth.brokers, partitions)


def _of_partition(said: Assessment, truth: PartitionTruth) -> Iterator[str]:
    if said.designee != truth.expectation.designee:
        yield f"{truth.partition}: elects b{said.designee}, not b{truth.expectation.designee}"
    for choice in truth.choices:
        price = choice.committed + choice.uncommitted
        loss = said.loss_of(choice.broker)
        if loss.total != price:
            yield f"{truth.partition}: b{choice.broker} loses {loss.total}, true is {price}"
        committed = loss.records.committed
        if known(committed) and committed > choice.committed:
            yield (
                f"{truth.partition}: b{choice.broker} loses {committed} committed, true is "
                f"{choice.committed}"
            )
        bound = said.unread.at_least
        if known(bound) and bound > choice.unread:
            yield f"{truth.partition}: unread >= {bound}, true is {choice.unread}"
    for replica in truth.replicas:
        yield from _of_replica(truth, replica, said.evidence.replica(replica.broker))


def _of_replica(
    truth: PartitionTruth, true: ReplicaTruth, said: ReplicaLog | None
) -> Iterator[str]:
    name = f"{truth.partition} on b{true.broker}"
    if said is None:
        yield f"{name}: not told of"
    elif true.readable != known(said.log_end):
        yield f"{name}: log end {said.log_end}, readable is {true.readable}"
    elif true.readable:
        figures = (said.log_start, said.log_end, _ranges(said))
        wanted = (true.log_start, true.log_end, list(true.epochs))
        if figures != wanted:
            yield f"{name}: said {figures}, true is {wanted}"


def _ranges(said: ReplicaLog) -> object:
    epochs = said.epochs
    return list(epochs.ranges) if isinstance(epochs, EpochHistory) else epochs
