"""Holding a triage against the truth: words, actions, every replica, the price of every choice."""

from collections.abc import Iterable, Iterator

from breakglass.console.truth import wrong_verdicts
from breakglass.services.lab.truth import PartitionTruth, ReplicaTruth, TrueVerdict, Truth
from breakglass.services.model import EpochHistory, ReplicaLog, TopicPartition, known
from breakglass.services.recovery.judgement.assessment import Action, Assessment, Verb
from breakglass.services.recovery.triage import Triage

ELECTIONS = (TrueVerdict.SAFE, TrueVerdict.LOSS)


def differences(found: Triage, truth: Truth, partitions: Iterable[PartitionTruth]) -> list[str]:
    """A sentence for everything that *found* says of *partitions* and *truth* does not."""
    chosen = tuple(partitions)
    names = {truth.partition for truth in chosen}
    said = {
        assessment.partition: assessment
        for assessment in found.assessments
        if assessment.partition in names
    }
    apart = [*_wrong_presence(said.keys(), chosen)]
    offline = tuple(truth for truth in chosen if truth.partition in said)
    for one in offline:
        apart += _of_partition(said[one.partition], one)
    return [*apart, *wrong_verdicts(said.values(), _of_these(truth, offline))]


def differences_without(found: Triage, partitions: Iterable[PartitionTruth]) -> list[str]:
    """The same of the words alone, once the brokers to start are known never to return."""
    said = {assessment.partition: assessment for assessment in found.assessments}
    return [
        f"{partition.partition}: said {said[partition.partition].verdict} "
        f"{said[partition.partition].action}, true is {_last_word(partition)} "
        f"b{partition.expectation.designee} ({partition.expectation.why})"
        for partition in partitions
        if not _says_last_word(said[partition.partition], partition)
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
    for truth in truths:
        offline = truth.expectation.verdict is not None
        if offline != (truth.partition in judged):
            yield f"{truth.partition}: {'not judged' if offline else 'judged'}"


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
        epochs = said.epochs
        figures = (
            said.log_start,
            said.log_end,
            list(epochs.ranges) if isinstance(epochs, EpochHistory) else epochs,
        )
        wanted = (true.log_start, true.log_end, list(true.epochs))
        if figures != wanted:
            yield f"{name}: said {figures}, true is {wanted}"
