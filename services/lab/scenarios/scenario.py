"""Defines a scenario by the lab it needs and its script, and plays several scenarios on one lab.

A script is a generator: it makes its topics, writes its records, and yields the next `LabDamage` to
the whole lab. `play` does each act once for all scripts, so that they share the lab and its waits.
Scenarios can share a lab if their acts come in the same order; a script may skip acts.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path

from breakglass.services.errors import LabError
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.distribution import DEFAULT_VERSION
from breakglass.services.lab.produce import Pattern, Produced, produce_bulk, produce_each
from breakglass.services.lab.segments import DiskLog, read_log
from breakglass.services.lab.topics import create_topic
from breakglass.services.lab.truth import (
    Condition,
    CountedLoss,
    Expectation,
    PartitionTruth,
    ReplicaTruth,
    Truth,
    Written,
    save_truth,
)
from breakglass.services.lab.wire import Conversation
from breakglass.services.model import PartitionState, TopicPartition


@dataclass(frozen=True, slots=True)
class LabDamage:
    """One piece of damage to a lab, done when this returns: it waits until it is observed."""

    name: str
    do: Callable[[Cluster], None]


Script = Generator[LabDamage, None, Sequence[Expectation]]


@dataclass(frozen=True, slots=True)
class Shape:
    """The lab a scenario needs; several are merged into the larger one."""

    brokers: int = 3
    controllers: int = 1
    log_dirs: int = 1
    overrides: Mapping[str, str] = field(default_factory=dict)
    """Kafka settings of every node."""
    prepare: Callable[[Cluster], None] | None = None
    """Called between planning and start: proxies and settings of single nodes."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A named failure."""

    name: str
    summary: str
    """One line, for the list."""
    script: Callable[[Stage], Script]
    shape: Shape = field(default_factory=Shape)
    course: tuple[LabDamage, ...] = ()
    """The acts that the script may yield, in their order; none: it plays alone."""
    options: Mapping[str, str] = field(default_factory=dict)
    """What may be set, with the defaults."""


def alone(script: Callable[[Stage], Sequence[Expectation]]) -> Callable[[Stage], Script]:
    """A script that does its own damage from beginning to end, sharing the lab with no other."""

    def generator(stage: Stage) -> Script:
        yield from ()
        return script(stage)

    return generator


def check_together(scenarios: Sequence[Scenario]) -> None:
    """Several scenarios play on one lab only when they share a course.

    Raises:
        LabError: these do not.
    """
    if not scenarios:
        raise LabError("No scenario was named: choose one or more of `lab scenario --list`.")
    if len(scenarios) > 1 and not (
        scenarios[0].course
        and all(scenario.course == scenarios[0].course for scenario in scenarios)
    ):
        names = ", ".join(scenario.name for scenario in scenarios)
        raise LabError(f"{names} damage a lab in different ways: give each a lab of its own.")


def merged_shape(shapes: Sequence[Shape]) -> Shape:
    """The smallest lab that fits all *shapes*.

    Raises:
        LabError: they want a setting to have different values.
    """
    overrides: dict[str, str] = {}
    for shape in shapes:
        for key, value in shape.overrides.items():
            if overrides.setdefault(key, value) != value:
                raise LabError(f"These scenarios disagree on {key}: give each a lab of its own.")
    return Shape(
        brokers=max(shape.brokers for shape in shapes),
        controllers=max(shape.controllers for shape in shapes),
        log_dirs=max(shape.log_dirs for shape in shapes),
        overrides=overrides,
    )


def drive(
    scripts: Sequence[Script], course: Sequence[LabDamage], do: Callable[[LabDamage], None]
) -> list[Sequence[Expectation]]:
    """Run all *scripts* to their ends, doing each act once for all that wait for it.

    Of the acts that are waited for, the first of the *course* is done next. Returns what each
    script returned.
    """
    parked: dict[int, LabDamage] = {}
    returned: dict[int, Sequence[Expectation]] = {}
    ready = list(range(len(scripts)))
    while True:
        for number in ready:
            try:
                parked[number] = next(scripts[number])
            except StopIteration as end:
                returned[number] = end.value
        if not parked:
            return [returned[number] for number in range(len(scripts))]
        act = min(
            parked.values(), key=lambda damage: course.index(damage) if damage in course else 0
        )
        do(act)
        ready = sorted(number for number, awaited in parked.items() if awaited == act)
        for number in ready:
            del parked[number]


Identity = tuple[int, int]
"""(leader epoch, offset)."""


class Stage:
    """What one scenario makes and writes on *cluster*."""

    def __init__(self, cluster: Cluster, scenario: str, options: Mapping[str, str]) -> None:
        self.cluster = cluster
        self.scenario = scenario
        self.options = options
        self.notes: dict[str, str] = {}
        """Facts of this scenario for its tests."""
        self._written: dict[TopicPartition, list[Written]] = {}
        self._disks: dict[tuple[int, TopicPartition | None], str] = {}
        self._compacted: set[str] = set()

    def number(self, option: str) -> int:
        """An option that is a positive number.

        Raises:
            LabError: it is not.
        """
        text = self.options[option]
        if not text.isdecimal() or int(text) < 1:
            raise LabError(f"Option {option} of {self.scenario} is {text}: give a number above 0.")
        return int(text)

    def create(
        self,
        topic: str,
        assignments: Sequence[Sequence[int]],
        configs: Mapping[str, str] | None = None,
    ) -> tuple[TopicPartition, ...]:
        """Create *topic* with partition i on the brokers ``assignments[i]``, all in sync."""
        create_topic(self.cluster, topic, assignments, configs)
        if "compact" in (configs or {}).get("cleanup.policy", ""):
            self._compacted.add(topic)
        return tuple(TopicPartition(topic, number) for number in range(len(assignments)))

    def write(
        self,
        partitions: Sequence[TopicPartition],
        count: int,
        *,
        acks: str = "all",
        committed: bool | None = None,
    ) -> None:
        """Write *count* records to each partition and remember them.

        *committed* says whether every member of the ISR gets them; with acks=all it is so.
        """
        states = self._led(partitions)
        pattern = Pattern(start=max(self._written_to(partition) for partition in partitions))
        counts = dict.fromkeys(partitions, count)
        for partition, produced in produce_each(
            self.cluster, counts, acks=acks, pattern=pattern
        ).items():
            self._remember(produced, states[partition], committed)

    def write_bulk(self, partitions: Sequence[TopicPartition], count: int) -> None:
        """`write` for thousands of partitions, which hold equally many records, by few requests."""
        states = self._led(partitions)
        wanted = [states[partition] for partition in partitions]
        start = self._written_to(partitions[0])
        for partition, produced in produce_bulk(self.cluster, wanted, count, start=start).items():
            self._remember(produced, states[partition], committed=True)

    def wait_leader(self, partition: TopicPartition, broker: int) -> None:
        self.cluster.wait_partition(
            partition.topic,
            partition.partition,
            lambda state: state.leader == broker,
            f"broker {broker} to lead",
        )

    def wait_isr(self, partition: TopicPartition, *brokers: int) -> None:
        self.cluster.wait_partition(
            partition.topic,
            partition.partition,
            lambda state: set(state.isr) == set(brokers),
            f"brokers {brokers} to be in sync",
        )

    def mark_disk(self, broker: int, state: str, partition: TopicPartition | None = None) -> None:
        """Note that a disk was ``replaced`` or ``failed``, for one partition or all."""
        self._disks[broker, partition] = state

    def record(self, partition: TopicPartition, written: Written) -> None:
        """Remember records that were acknowledged, and written by other means than `write`."""
        self._written.setdefault(partition, []).append(written)

    def _led(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, PartitionState]:
        """The states of *partitions*, once each has a leader: a busy broker can be fenced briefly.

        Raises:
            LabError: a partition stays offline: write before it is lost.
        """
        states: dict[TopicPartition, PartitionState] = {}

        def led() -> bool:
            topics = {partition.topic for partition in partitions}
            states.update({state.partition: state for state in self.cluster.partitions(*topics)})
            return all(states[partition].leader is not None for partition in partitions)

        self.cluster.wait_until(led, "every partition to have a leader to write to")
        return states

    def _written_to(self, partition: TopicPartition) -> int:
        return sum(len(written.keys) for written in self._written.get(partition, ()))

    def _remember(self, produced: Produced, state: PartitionState, committed: bool | None) -> None:
        if state.leader is None:
            raise LabError(f"{state.partition} had no leader when it was written to.")
        written = Written(
            epoch=state.leader_epoch,
            start=produced.offsets[0],
            keys=tuple(record.key.decode() for record in produced.acked),
            acks=produced.acks,
            committed=produced.acks == "all" if committed is None else committed,
            broker=state.leader,
        )
        self.record(state.partition, written)

    def truth(self, expectation: Expectation, assignment: Sequence[int]) -> PartitionTruth:
        """The partition as it is now, read from the disks of all its replicas."""
        partition = expectation.partition
        written = tuple(self._written.get(partition, ()))
        logs = {broker: read_log(self._folder(broker, partition)) for broker in assignment}
        replicas = tuple(self._replica(broker, partition, logs[broker]) for broker in assignment)
        return PartitionTruth(
            scenario=self.scenario,
            expectation=expectation,
            assignment=tuple(assignment),
            written=written,
            replicas=replicas,
            choices=count_choices(
                {broker: self._held(partition, log) for broker, log in logs.items()},
                [replica.broker for replica in replicas if replica.readable],
                written,
            ),
        )

    def _held(self, partition: TopicPartition, log: DiskLog) -> frozenset[tuple[int, int]]:
        """What a replica holds; of a compacted log also what newer records in it replaced."""
        if partition.topic not in self._compacted:
            return log.identities
        return frozenset(
            (span.epoch, offset) for span in log.epochs for offset in range(span.start, span.end)
        )

    def _folder(self, broker: int, partition: TopicPartition) -> Path | None:
        node = self.cluster.broker(broker)
        return node.partition_folder(partition.topic, partition.partition)

    def _replica(self, broker: int, partition: TopicPartition, log: DiskLog) -> ReplicaTruth:
        everywhere = self._disks.get((broker, None), "intact")
        disk = self._disks.get((broker, partition), everywhere)
        return ReplicaTruth(
            broker=broker,
            readable=condition(self.cluster, broker) is Condition.RUNNING and disk != "failed",
            log_start=log.start,
            log_end=log.end,
            epochs=log.epochs,
            records=len(log.identities),
            disk=disk,
        )


def condition(cluster: Cluster, broker: int) -> Condition:
    """What became of a broker."""
    node = cluster.broker(broker)
    if not node.running:
        return Condition.DEAD
    return Condition.PAUSED if node.paused else Condition.RUNNING


def count_choices(
    held: Mapping[int, Set[Identity]], readable: Iterable[int], written: Iterable[Written]
) -> tuple[CountedLoss, ...]:
    """What electing each readable replica loses, counted record by record, in the order given.

    *held* has the records of every replica, by broker; those of brokers that are not *readable*
    count as unread.
    """
    choices = tuple(readable)
    written = tuple(written)
    committed = _identities(one for one in written if one.committed)
    acked = _identities(written)
    within_reach = _union(held[broker] for broker in choices)
    out_of_reach = _union(held.values()) - within_reach
    return tuple(
        CountedLoss(
            broker=broker,
            committed=len((within_reach - held[broker]) & committed),
            uncommitted=len((within_reach - held[broker]) - committed),
            unread=len(out_of_reach - held[broker]),
            acked=len(acked - held[broker]),
        )
        for broker in choices
    )


def _identities(written: Iterable[Written]) -> Set[Identity]:
    return frozenset((one.epoch, offset) for one in written for offset in range(one.start, one.end))


def _union(sets: Iterable[Set[Identity]]) -> Set[Identity]:
    return frozenset(identity for set_ in sets for identity in set_)


def wait_log_end(cluster: Cluster, partition: TopicPartition, end: int, *brokers: int) -> None:
    """Wait until the logs of *brokers* end at *end*."""
    what = f"the logs of {partition} on {brokers} to end at {end}"
    _wait_logs(cluster, partition, brokers, lambda log: log.end == end, what)


def wait_records(cluster: Cluster, partition: TopicPartition, count: int, *brokers: int) -> None:
    """Wait until *brokers* hold exactly *count* records, the others being compacted away."""
    what = f"{count} records of {partition} to be left on {brokers}"
    _wait_logs(cluster, partition, brokers, lambda log: len(log.identities) == count, what)


def wait_high_watermark(
    cluster: Cluster, partition: TopicPartition, mark: int, *brokers: int
) -> None:
    """Wait until *brokers* have heard that the high watermark is *mark*."""
    state = cluster.partition(partition.topic, partition.partition)
    cluster.wait_until(
        lambda: all(
            cluster.read(lambda node: _high_watermark(node, state, mark), via=broker) == mark
            for broker in brokers
        ),
        f"the high watermark of {partition} on {brokers} to be {mark}",
    )


def _high_watermark(node: Conversation, state: PartitionState, offset: int) -> int:
    """As the replica on *node* has it; -1 while *offset* is past it."""
    from kafka.protocol.consumer import FetchRequest, FetchResponse

    topic_class = FetchRequest.FetchTopic
    wanted = topic_class.FetchPartition(
        partition=state.partition.partition, fetch_offset=offset, partition_max_bytes=1
    )
    topic = topic_class(topic=state.partition.topic, topic_id=state.topic_id, partitions=[wanted])
    answer = node.ask(FetchRequest(max_wait_ms=0, min_bytes=0, topics=[topic]), FetchResponse)
    return int(answer.responses[0].partitions[0].high_watermark)


def _wait_logs(
    cluster: Cluster,
    partition: TopicPartition,
    brokers: tuple[int, ...],
    condition: Callable[[DiskLog], bool],
    what: str,
) -> None:
    def holds() -> bool:
        return all(condition(_log_on_disk(cluster, partition, broker)) for broker in brokers)

    cluster.wait_until(holds, what)


def _log_on_disk(cluster: Cluster, partition: TopicPartition, broker: int) -> DiskLog:
    folder = cluster.broker(broker).partition_folder(partition.topic, partition.partition)
    while True:
        try:
            return read_log(folder)
        except FileNotFoundError:
            # The log cleaner has just replaced this segment: its successor is there already.
            continue


def raise_lab(
    state_dir: Path,
    scenarios: Sequence[Scenario],
    *,
    kafka_version: str = DEFAULT_VERSION,
    overrides: Mapping[str, str] | None = None,
    secured: bool = False,
    tethered: bool = False,
    dynamic: bool = False,
) -> Cluster:
    """Start a lab that fits all *scenarios*.

    Raises:
        LabError: they do not fit together, or the lab did not start.
    """
    check_together(scenarios)
    shape = merged_shape([scenario.shape for scenario in scenarios])
    cluster = Cluster.plan(
        state_dir,
        brokers=shape.brokers,
        controllers=shape.controllers,
        log_dirs=shape.log_dirs,
        overrides={**shape.overrides, **(overrides or {})},
        kafka_version=kafka_version,
        secured=secured,
        tethered=tethered,
        dynamic=dynamic,
    )
    for scenario in scenarios:
        if scenario.shape.prepare is not None:
            scenario.shape.prepare(cluster)
    cluster.start()
    return cluster


def play(
    cluster: Cluster, scenarios: Sequence[Scenario], options: Mapping[str, str] | None = None
) -> Truth:
    """Do the damage of *scenarios* to a running lab, and say what is there then.

    The truth is kept in the state folder too. *options* go to every scenario that knows them.

    Raises:
        LabError: an unknown option, or the damage could not be done as written.
    """
    check_together(scenarios)
    chosen = dict(options or {})
    _check_options(scenarios, chosen)
    stages = [_stage(cluster, scenario, chosen) for scenario in scenarios]
    scripts = [scenario.script(stage) for scenario, stage in zip(scenarios, stages, strict=True)]
    expectations = drive(scripts, scenarios[0].course, lambda act: act.do(cluster))
    truth = Truth(
        cluster_id=cluster.layout.cluster_id,
        kafka_version=cluster.layout.kafka_version,
        scenarios=tuple(scenario.name for scenario in scenarios),
        brokers={node.id: condition(cluster, node.id) for node in cluster.brokers},
        partitions=tuple(
            truth
            for stage, expected in zip(stages, expectations, strict=True)
            for truth in _truths(cluster, stage, expected)
        ),
        notes={key: value for stage in stages for key, value in stage.notes.items()},
    )
    save_truth(truth, cluster.state_dir)
    return truth


def perform(
    state_dir: Path,
    scenarios: Sequence[Scenario],
    options: Mapping[str, str] | None = None,
    *,
    kafka_version: str = DEFAULT_VERSION,
    tethered: bool = False,
    dynamic: bool = False,
) -> tuple[Cluster, Truth]:
    """A new lab on which *scenarios* were played; on failure or Ctrl-C nothing is left of it.

    Raises:
        LabError: as `raise_lab` and `play`.
    """
    _check_options(scenarios, options or {})
    cluster = raise_lab(
        state_dir, scenarios, kafka_version=kafka_version, tethered=tethered, dynamic=dynamic
    )
    try:
        return cluster, play(cluster, scenarios, options)
    except BaseException:
        cluster.down()
        raise


def _check_options(scenarios: Sequence[Scenario], options: Mapping[str, str]) -> None:
    for name in options:
        if not any(name in scenario.options for scenario in scenarios):
            known = sorted({option for scenario in scenarios for option in scenario.options})
            raise LabError(
                f"There is no option {name}: these scenarios know {', '.join(known) or 'none'}."
            )


def _stage(cluster: Cluster, scenario: Scenario, options: Mapping[str, str]) -> Stage:
    given = {key: value for key, value in options.items() if key in scenario.options}
    return Stage(cluster, scenario.name, {**scenario.options, **given})


def _truths(
    cluster: Cluster, stage: Stage, expectations: Sequence[Expectation]
) -> list[PartitionTruth]:
    topics = {expected.partition.topic for expected in expectations}
    states = {state.partition: state for state in cluster.partitions(*sorted(topics))}
    for expected in expectations:
        state = states[expected.partition]
        if expected.verdict is not None and not state.offline:
            raise LabError(
                f"{state.partition} is led by broker {state.leader}, though it should be offline: "
                "play the scenario again, on a machine with less to do."
            )
    return [
        stage.truth(expected, states[expected.partition].assignment) for expected in expectations
    ]
