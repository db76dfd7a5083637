"""Plays an incident on a lab: does each step as far as possible, and waits for its effect.

A step is skipped if it has nothing left to do because an earlier step was dropped. So an incident
can be minimised by dropping steps.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from breakglass.bookkeeping.log_files import NO_LOG, DiskReading, Name, read_disks
from breakglass.bookkeeping.producer import Book
from breakglass.services.errors import LabError, Unreachable
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.controller_link import ControllerLink
from breakglass.services.lab.distribution import CLUSTER, run_tool
from breakglass.services.lab.incidents.incident import Happening, LabIncident, Step
from breakglass.services.lab.layout import Listener
from breakglass.services.lab.node import fail_log_dir
from breakglass.services.lab.scenarios.damage import (
    bring_back_empty,
    hang,
    hold_followers,
    lose,
    lose_last,
    release,
    wait_gone,
    wait_left,
)
from breakglass.services.lab.segments import BEFORE_LENGTH, HEADER
from breakglass.services.lab.topics import create_topic, elect_unclean, reassign
from breakglass.services.model import PartitionState

QUICK = {
    "broker.session.timeout.ms": "4000",
    "replica.high.watermark.checkpoint.interval.ms": "500",
    "metadata.max.idle.interval.ms": "5000",
}
"""Each loss is waited out; below this a busy machine fences brokers that are well. By default a
controller with nothing to write wakes every node twice a second by a record that says nothing."""
HELD_OFF = {"leader.imbalance.check.interval.seconds": "3600"}
"""An empty last leader is elected when it pleases the controller: later than the operator."""
COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.001",
    "segment.ms": "60000",
}
STEP_MS = 120_000
"""Between the timestamps of two writes: each begins a segment, and older ones are cleaned."""
KEYS = 12
"""Of a compacted topic."""
GROUP = "campaign-readers"
SETTLE_SECONDS = 20.0
QUIET_LOOKS = 4
LOOK_SECONDS = 0.25


@dataclass
class Wreck:
    """A lab on which an incident is played, with the book of what was written to it."""

    incident: LabIncident
    cluster: Cluster
    book: Book
    failed_dirs: set[Path] = field(default_factory=set)
    reassigned: set[Name] = field(default_factory=set)
    """Partitions that were being moved when they were last led: their order is not final."""
    passed_over: list[str] = field(default_factory=list)
    time_ms: int = field(default_factory=lambda: int(time.time() * 1000) - 40 * STEP_MS)
    """The timestamp of the records that were written last."""

    @classmethod
    def start(cls, incident: LabIncident, folder: Path, *, tethered: bool = True) -> Wreck:
        """A lab of the right shape, whole, with its topics.

        Raises:
            LabError: it did not start.
        """
        bomb = any(step.act is Happening.RETURN_EMPTY for step in incident.steps)
        cluster = Cluster.plan(
            folder,
            brokers=incident.brokers,
            controllers=incident.controllers,
            log_dirs=incident.log_dirs,
            overrides={**QUICK, **(HELD_OFF if bomb else {})},
            kafka_version=incident.kafka_version,
            tethered=tethered,
        )
        try:
            # Brokers that are to lose their way to the controllers.
            for broker in {
                broker
                for step in incident.steps
                if step.act is Happening.CUT
                for broker in step.brokers
            }:
                ControllerLink(cluster, broker).plan()
            cluster.start()
            wreck = cls(incident, cluster, Book(cluster.lab_bootstrap))
            for topic in incident.topics:
                cleanup = COMPACTED if topic.compacted else {}
                configs = {"min.insync.replicas": str(topic.min_isr), **cleanup}
                create_topic(cluster, topic.name, topic.assignments, configs)
        except BaseException:
            cluster.down()
            raise
        return wreck

    def play(self) -> None:
        """Do every step.

        Raises:
            LabError: the lab cannot do what a step says.
        """
        self.happen(self.incident.steps)

    def happen(self, steps: Sequence[Step]) -> None:
        """Do *steps*, and wait until they have had their effect. Raises as `play`."""
        for step in steps:
            if not self._do(step):
                self.passed_over.append(str(step))
        self.settle()

    @property
    def awake(self) -> set[int]:
        """Brokers that run and are not paused."""
        return {node.id for node in self.cluster.brokers if node.awake}

    def read(self) -> DiskReading:
        """What the disks hold now."""
        dirs = {node.id: node.layout.log_dirs for node in self.cluster.brokers}
        return read_disks(dirs, self.awake, self.failed_dirs)

    def partitions(self) -> dict[Name, PartitionState]:
        """Every partition, as brokers that answer see it."""
        return {
            (state.partition.topic, state.partition.partition): state
            for state in self.cluster.partitions()
        }

    def offline(self) -> set[Name]:
        return {name for name, state in self.partitions().items() if state.offline}

    def settle(self) -> None:
        """Wait until leaders and log ends stay as they are for a while."""
        give_up, seen, quiet = time.monotonic() + SETTLE_SECONDS, None, 0
        while quiet < QUIET_LOOKS and time.monotonic() < give_up:
            now = self._glance()
            quiet = quiet + 1 if now == seen else 0
            seen = now
            time.sleep(LOOK_SECONDS)

    def _glance(self) -> object:
        try:
            states = self.partitions()
        except (LabError, Unreachable):
            return None
        leaders = [(name, state.leader, state.leader_epoch) for name, state in states.items()]
        # The bytes of each segment tell at little cost whether logs are as they were.
        found = {}
        for broker in self.awake:
            for log_dir in self.cluster.broker(broker).layout.log_dirs:
                for segment in log_dir.glob("*-*/*.log"):
                    with suppress(FileNotFoundError):
                        found[str(segment)] = segment.stat().st_size
        return leaders, found

    def _wait_replicated(self) -> None:
        """Let every replica in sync have what was written: who lacks what is then no chance."""

        def alike() -> bool:
            held = self.read()
            for state in self._led():
                ends = {held.held(_name(state)).get(broker, NO_LOG).end for broker in state.isr}
                if len(ends) > 1:
                    return False
            return True

        self.cluster.wait_until(alike, "replicas in sync to have everything")

    def _do(self, step: Step) -> bool:
        """Whether the step had anything to do."""
        act = step.act
        if act in (Happening.WRITE, Happening.TRANSACT, Happening.COMMIT):
            return self._write(step)
        if act is Happening.UNCLEAN:
            return self._elect_uncleanly()
        if act is Happening.REASSIGN:
            return self._reassign()
        if act is Happening.CONTROLLER:
            if len(self.cluster.controllers) < 3:
                return False
            self.cluster.controllers[0].kill()
            self.cluster.wait_until(
                lambda: bool(self.cluster.partitions()), "brokers to answer without that controller"
            )
            return True
        if act is Happening.LAST:
            return self._last(step)
        if act in (Happening.POWER, Happening.UNREGISTER):
            return self._to_the_dead(step)
        return self._to_brokers(step)

    def _to_brokers(self, step: Step) -> bool:
        act, awake = step.act, self.awake
        if act in (Happening.RETURN, Happening.RETURN_EMPTY):
            down = [broker for broker in step.brokers if not self.cluster.broker(broker).running]
            return bool(down) and self._return(act, down)
        chosen = [broker for broker in step.brokers if broker in awake]
        if not chosen or len(awake) <= len(chosen):
            return act is Happening.FAIL_DIR and bool(chosen) and self._fail_dir(step)
        if act is Happening.KILL:
            lose(self.cluster, *chosen)
        elif act is Happening.STOP:
            for broker in chosen:
                self.cluster.broker(broker).stop()
            wait_left(self.cluster, *chosen)
        elif act is Happening.STRAND:
            return self._strand(chosen[0], step.count)
        elif act is Happening.HANG:
            hang(self.cluster, chosen[0])
            wait_left(self.cluster, chosen[0])
        elif act is Happening.CUT:
            ControllerLink(self.cluster, chosen[0]).cut()
            self.cluster.wait_fenced(chosen[0])
        elif act is Happening.FAIL_DIR:
            return self._fail_dir(step)
        return True

    def _to_the_dead(self, step: Step) -> bool:
        down = [node for node in map(self.cluster.broker, step.brokers) if not node.running]
        if step.act is Happening.UNREGISTER and not self.awake:
            return False
        for node in down:
            if step.act is Happening.UNREGISTER:
                # Kafka's tool asks one broker, which may hang or reach no controller.
                awake = map(self.cluster.broker, sorted(self.awake))
                asked = min(awake, key=lambda one: bool(one.layout.controller_links))
                address = asked.address(Listener.LAB)
                named = ("--bootstrap-server", str(address), "--id", str(node.id))
                run_tool(self.cluster.kafka, CLUSTER, ["unregister", *named]).check()
                self.cluster.wait_unregistered(node.id)
                continue
            folders = [folder for each in node.layout.log_dirs for folder in each.glob("*-*")]
            logs = [
                each
                for each in sorted(folders)
                if any(each.glob("*.log")) and not each.name.startswith("__cluster_metadata")
            ]
            for folder in logs[step.count % 2 :: 2]:
                lose_batches(folder, step.count)
        return bool(down)

    def _led(self, by: int | None = None) -> list[PartitionState]:
        """Partitions of the incident's topics that have a leader that is awake."""
        awake = self.awake
        written = {
            topic.name: len(topic.assignments) - topic.never for topic in self.incident.topics
        }
        return [
            state
            for state in self.cluster.partitions()
            if state.partition.partition < written.get(state.partition.topic, 0)
            and state.leader in awake
            and by in (None, state.leader)
        ]

    def _write(self, step: Step) -> bool:
        led = self._led()
        if step.act is Happening.COMMIT:
            ends = {_name(state): self.book.ever_ended_at(_name(state)) for state in led}
            ends = {name: end for name, end in ends.items() if end}
            epochs: dict[Name, int] = {}
            if self.incident.group_epochs:
                held = self.read()
                for state in led:
                    name, log = _name(state), held.held(_name(state)).get(state.leader or 0, NO_LOG)
                    if name in ends and (epoch := log.epoch_at(ends[name] - 1)) is not None:
                        epochs[name] = epoch
            return bool(ends) and self.book.commit(GROUP, ends, epochs)
        if step.act is Happening.TRANSACT:
            plain = {topic.name for topic in self.incident.topics if not topic.compacted}
            places = [
                _name(state)
                for state in led
                if state.partition.topic in plain and self._takes_all(state)
            ]
            end = step.end.value if step.end else "commit"
            done = self.book.transact(places, step.count, end)
            self._wait_replicated()
            return done
        self.time_ms += STEP_MS
        for topic in self.incident.topics:
            mine = [state for state in led if state.partition.topic == topic.name]
            full = [_name(state) for state in mine if step.acks == "all" and self._takes_all(state)]
            rest = [_name(state) for state in mine if _name(state) not in full]
            for places, acks in ((full, "all"), (rest, "1")):
                self.book.write(
                    places,
                    step.count,
                    acks=acks,
                    compression=topic.compression,
                    timestamp_ms=self.time_ms,
                    keys=KEYS if topic.compacted else None,
                )
        self._wait_replicated()
        return bool(led)

    def _takes_all(self, state: PartitionState) -> bool:
        """Whether enough replicas are in sync for acks=all."""
        plans = {topic.name: topic.min_isr for topic in self.incident.topics}
        return len(state.isr) >= plans.get(state.partition.topic, 1)

    def _strand(self, leader: int, count: int) -> bool:
        """The leader alone takes records, and is lost with them."""
        led = self._led(by=leader)
        if not led:
            return False
        followers = sorted(self.awake - {leader})
        hold_followers(self.cluster, leader, *followers)
        try:
            for topic in self.incident.topics:
                places = [_name(s) for s in led if s.partition.topic == topic.name]
                keys = KEYS if topic.compacted else None
                self.book.write(places, count, acks="1", timestamp_ms=self.time_ms, keys=keys)
        finally:
            self.cluster.broker(leader).kill()
            release(self.cluster, *followers)
        lose(self.cluster, leader)
        return True

    def _last(self, step: Step) -> bool:
        awake = self.awake
        killed = [broker for broker in step.brokers if broker in awake]
        back = [broker for broker in step.back if not self.cluster.broker(broker).running]
        if not killed or not (set(back) | (awake - set(killed))):
            return False
        if back:
            lose_last(self.cluster, *killed, back=back)
        else:
            for broker in killed:
                self.cluster.broker(broker).kill()
            wait_gone(self.cluster, *killed)
        return True

    def _return(self, act: Happening, brokers: Sequence[int]) -> bool:
        if act is Happening.RETURN_EMPTY:
            for broker in brokers:
                bring_back_empty(self.cluster, broker)
                self.failed_dirs -= set(self.cluster.broker(broker).layout.log_dirs)
            return True
        for broker in brokers:
            self.cluster.broker(broker).start()
        self.cluster.wait_unfenced(*brokers)
        return True

    def _elect_uncleanly(self) -> bool:
        awake = self.awake
        offline = [
            state.partition
            for state in self.cluster.partitions()
            if state.offline and awake & set(state.assignment)
        ]
        for partition in offline:
            try:
                elect_unclean(self.cluster, partition)
            except LabError:
                continue
        return bool(offline)

    def _fail_dir(self, step: Step) -> bool:
        """Fail a directory that holds replicas, and wait until its broker has noticed."""
        broker = self.cluster.broker(step.brokers[0])
        log_dirs = broker.layout.log_dirs
        if len(log_dirs) < 2:
            return False
        log_dir = log_dirs[(step.count or 1) - 1]
        if log_dir in self.failed_dirs or not any(log_dir.glob("*-*/*.log")):
            return False
        here = {folder.name for folder in log_dir.glob("*-*") if any(folder.glob("*.log"))}
        fail_log_dir(log_dir)
        self.failed_dirs.add(log_dir)
        self.cluster.wait_until(
            lambda: all(
                broker.id in state.offline_replicas
                for state in self.cluster.partitions()
                if str(state.partition) in here and broker.id in state.assignment
            ),
            f"the failed directory of broker {broker.id} to be noticed",
        )
        return True

    def _reassign(self) -> bool:
        """Move one partition without leader to a broker outside its assignment."""
        everyone = {node.id for node in self.cluster.brokers}
        for state in self.cluster.partitions():
            others = sorted(everyone - set(state.assignment))
            if state.offline and others and not state.partition.topic.startswith("__"):
                target = (*state.assignment[1:], others[0])
                reassign(self.cluster, {state.partition: target})
                self.reassigned.add(_name(state))
                return True
        return False


def lose_batches(folder: Path, count: int) -> None:
    """Take the last *count* batches from the newest segment of a log, as a power cut does."""
    segment = max(folder.glob("*.log"))
    data = segment.read_bytes()
    starts, position = [0], 0
    while position + HEADER.size <= len(data):
        _, length, *_ = HEADER.unpack_from(data, position)
        position += BEFORE_LENGTH + length
        starts.append(position)
    segment.write_bytes(data[: starts[max(0, len(starts) - 1 - count)]])


def _name(state: PartitionState) -> Name:
    return state.partition.topic, state.partition.partition
