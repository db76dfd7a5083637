"""Records of an elected partition that are not readable yet: what they wait for, and the act.

A leader moves its high watermark only while min.insync.replicas are in sync, and consumers read no
further than that (R30). The act gives such a partition replicas on further live brokers, and takes
none from it: a broker that is taken out of the assignment gives its log up (R50).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import ClassVar, TypeAlias

from breakglass.services import patience
from breakglass.services.errors import BreakglassError, OutcomeUnknown
from breakglass.services.guard.act import (
    PARTLY_FAILED,
    SUCCEEDED,
    Act,
    Armed,
    Ending,
    Front,
    Frozen,
    Means,
    TargetOutcome,
    TargetResult,
    Underway,
)
from breakglass.services.guard.consent import ConsentPhrase
from breakglass.services.guard.journal import StepName
from breakglass.services.kafka.cluster.log_dirs import read_broker_log_dirs
from breakglass.services.kafka.election_client import PARTITIONS_A_REQUEST, ElectionClient
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.replicas.list_offsets import ask_brokers, by_leader
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import (
    PartitionState,
    Reassignment,
    TopicPartition,
    TopicSettings,
    Unknown,
)
from breakglass.services.recovery.execution.confirm import Observer, States, seen_in
from breakglass.services.recovery.execution.restore_order import still_ours
from breakglass.services.recovery.execution.steps import described
from breakglass.services.recovery.execution.target import (
    ElectionTarget,
    PartitionOutcome,
    RecoveryResult,
    Rung,
)
from breakglass.services.recovery.judgement.inputs import named
from breakglass.services.recovery.topic_settings import read_snapshot
from breakglass.services.snapshot import ClusterDescription
from breakglass.services.words.figures import partitions_text

NAMED = 3
"""More partitions than these are counted."""
LOOK_SECONDS = 0.2
NOTHING = "No partition has too few replicas in sync and could be given another one."
GOES_ON = "the controller continues: `breakglass journal check` asks again"
Results: TypeAlias = dict[TopicPartition, tuple[TargetResult, str]]
Seen: TypeAlias = dict[TopicPartition, PartitionOutcome]


def reach_text(outcome: PartitionOutcome) -> str:
    """``31 of 92 records readable``; empty where consumers read to the end, or nobody leads."""
    if outcome.rung is None or outcome.rung >= Rung.READABLE:
        return ""
    left, held = outcome.not_yet_readable, outcome.held
    if left is None:
        if outcome.reach is None and outcome.target.log_end is None:
            return ""  # Of a preferred election, which keeps every record.
        return "how many of its records are readable is not known"
    if held is None:
        return f"{left:,} records are not readable yet"
    return f"{held - left:,} of {held:,} records readable"


def waits_for(outcomes: Iterable[PartitionOutcome], act: str = "") -> Iterator[str]:
    """What records that are not readable yet wait for, and what to do, one sentence a cause.

    *act* is how a replica is added here; by default, the command.
    """
    alike: dict[tuple[int | None, int, tuple[int, ...], tuple[int, ...]], list[PartitionOutcome]]
    alike = {}
    for outcome in outcomes:
        if outcome.not_yet_readable and outcome.reach is not None:
            target = outcome.target
            live = tuple(broker for broker in target.live if broker in target.assignment)
            away = tuple(
                broker for broker in target.assignment if broker not in (target.designee, *live)
            )
            key = (target.min_insync_replicas, outcome.reach.in_sync, live, away)
            alike.setdefault(key, []).append(outcome)
    for (minimum, in_sync, live, away), found in alike.items():
        until = "they become readable when another replica is in sync"
        if minimum is not None and in_sync >= minimum:
            until = f"{in_sync:,} replicas are in sync, and copy them"
        elif minimum is not None:
            until = (
                f"min.insync.replicas is {minimum:,} and {in_sync:,} in sync: they become readable "
                f"when {minimum:,} are"
            )
        topics = sorted({outcome.partition.topic for outcome in found})
        which = f"--topics {','.join(topics)} " if len(topics) <= NAMED else ""
        command = f"`breakglass after add-replica {which}--write`"
        add = act or f"add a replica on a live broker: {command}"
        back = f", or bring back {named(away)} once its log folders are saved" if away else ""
        to_do = f"{named(live)} copies them; if it does not come in sync, {add}"
        yield f"{behind_text(found)}: {until}; {to_do if live else add + back}"


def behind_text(found: Sequence[PartitionOutcome]) -> str:
    """``61 records of orders-3 are not readable yet``."""
    records = sum(outcome.not_yet_readable or 0 for outcome in found)
    partitions = ", ".join(str(outcome.partition) for outcome in found[:NAMED])
    more = f" and {partitions_text(len(found) - NAMED)} more" if found[NAMED:] else ""
    return f"{records:,} records of {partitions}{more} are not readable yet"


@dataclass(slots=True)
class LogRoom:
    """Which live brokers can take another log. What is not known of them keeps none from it."""

    cluster: ClusterDescription
    usable: dict[int, int]
    """Bytes that the roomiest log directory of a broker has left."""
    sizes: Mapping[TopicPartition, int]
    """Bytes of the leader's log."""
    given: dict[int, int]
    """How many logs each broker gets."""

    def take(self, state: PartitionState, number: int) -> tuple[int, ...]:
        """*number* brokers for further replicas of *state*, or as many as there are.

        Brokers of other racks than those in sync come first, then those that get the fewest.
        """
        size = self.sizes.get(state.partition, 0)
        racks = {broker.id: broker.rack for broker in self.cluster.brokers}
        chosen: list[int] = []
        while len(chosen) < number:
            taken = {racks.get(broker) for broker in (*state.isr, *chosen)} - {None}
            spare = [
                (racks.get(broker) in taken, self.given.get(broker, 0), broker)
                for broker in self.cluster.live
                if broker not in (*state.assignment, *chosen)
                and self.usable.get(broker, size) >= size
            ]
            if not spare:
                break
            broker = min(spare)[-1]
            chosen.append(broker)
            self.given[broker] = self.given.get(broker, 0) + 1
            if broker in self.usable:
                self.usable[broker] -= size
        return tuple(chosen)


def grown(
    states: Iterable[PartitionState],
    settings: Mapping[str, TopicSettings],
    room: LogRoom,
    *,
    impatient: bool,
) -> tuple[list[ElectionTarget], list[str]]:
    """The partitions of *states* that get replicas, and why others with too few get none.

    The order of a target is the assignment that it gets: its own, and the brokers that are added.
    Live replicas that are not in sync yet are waited for, unless the operator is *impatient*.
    """
    found: list[ElectionTarget] = []
    left: list[str] = []
    for state in sorted(states, key=lambda state: state.partition):
        minimum = settings[state.partition.topic].min_insync_replicas
        others = [one for one in state.assignment if one in room.cluster.live]
        copying = [one for one in others if one not in state.isr]
        lacking = minimum - len(state.isr) if isinstance(minimum, int) else 0
        wanted = lacking - (0 if impatient else len(copying))
        strangers = room.cluster.unregistered(state.assignment)
        why = ""
        if isinstance(minimum, Unknown):
            why = f"min.insync.replicas is not known ({minimum.reason})"
        elif state.leader is None or lacking <= 0:
            continue
        elif isinstance(state.reassignment, Unknown):
            why = f"it is unknown whether a reassignment runs ({state.reassignment.reason})"
        elif isinstance(state.reassignment, Reassignment):
            why = (
                f"a reassignment runs, which adds {named(state.reassignment.adding) or 'no broker'}"
            )
        elif strangers:
            why = f"the controller takes no assignment before {named(strangers)} is registered"
        elif wanted <= 0:
            name = f"--topics {state.partition.topic}"
            why = f"{named(copying)} copies it; if it does not come in sync, name the topic: {name}"
        elif len(added := room.take(state, wanted)) < wanted:
            why = (
                f"{wanted:,} more would have to be in sync, and {named(added) or 'no broker'} is "
                "live outside of its assignment, with room for the log: start a broker"
            )
        else:
            found.append(
                ElectionTarget(
                    state.partition,
                    state.topic_id,
                    state.leader,
                    (*state.assignment, *added),
                    state.assignment,
                    state.leader_epoch,
                    None,
                    minimum,
                    tuple(one for one in others if one != state.leader),
                )
            )
        if why:
            left.append(f"{state.partition}: {why}")
    return found, left


@dataclass(frozen=True, slots=True)
class AddReplicas(Act[tuple[ElectionTarget, ...]]):
    """Give partitions with fewer than min.insync.replicas in sync replicas on live brokers."""

    doing: ClassVar[str] = "adding replicas"
    topics: tuple[str, ...] = ()
    """Empty: all, except partitions of which a live replica is still copying."""
    seconds: float = patience.JOB
    """For new replicas to come in sync; the controller goes on without us."""

    def freeze(self, front: Front) -> Frozen[tuple[ElectionTarget, ...]]:
        with front.reading() as client:
            snapshot = read_snapshot(client, self.topics)
            states = {
                state.partition: state
                for state in snapshot.partitions
                if state.leader is not None
                and (len(state.isr) < len(state.assignment) or len(state.isr) == 1)
            }
            deadline = Deadline.after(patience.REQUEST)
            settings = client.settings(sorted({one.topic for one in states}), deadline)
            room = _room(client, snapshot.description, list(states.values()), deadline)
            found, left = grown(states.values(), settings, room, impatient=bool(self.topics))
            ends = Observer(client).log_ends(found)
            targets = tuple(
                replace(one, log_end=end)
                for one in found
                if isinstance(end := ends[one.partition], int)
            )
            left += [
                f"{name}: {end.reason}" for name, end in ends.items() if isinstance(end, Unknown)
            ]
            seen = _seen(client, targets, states).values()
        behind = [outcome for outcome in seen if outcome.not_yet_readable]
        remarks = [behind_text(behind)] if behind else []
        away = {one for target in targets for one in target.assignment} - set(snapshot.live)
        if away:
            remarks.append(
                f"{named(sorted(away))} stays in the assignment; taken out of it, its log would be "
                "renamed to -stray when it starts. As a replica it truncates what the leader "
                "lacks: `breakglass can-start` says whether that loses records"
            )
        return Frozen(
            snapshot.cluster_id,
            (ConsentPhrase(phrase(targets)),) if targets else (),
            tuple(
                (
                    str(one.partition),
                    f"b{one.designee} leads in epoch {one.leader_epoch:,}; "
                    f"{named(states[one.partition].isr)} in sync, min.insync.replicas is "
                    f"{one.min_insync_replicas}; {named(one.assignment)} becomes "
                    f"{named(one.order)}",
                )
                for one in targets
            ),
            tuple(str(one.partition) for one in targets),
            (*remarks, *left) if targets or left else (NOTHING,),
            targets,
        )

    def carry_out(
        self, front: Front, means: Means, frozen: Frozen[tuple[ElectionTarget, ...]]
    ) -> Ending:
        """Add them, and watch; the ending's value is the list of `TargetOutcome`."""
        done: list[TargetOutcome] = []
        with means.cluster.elections(frozen.cluster_id) as client:
            front.tell(Armed())
            for first in range(0, len(frozen.plan), PARTITIONS_A_REQUEST):
                batch = frozen.plan[first : first + PARTITIONS_A_REQUEST]
                for partition, (result, told) in self._batch(front, means, client, batch).items():
                    done.append(TargetOutcome(str(partition), result, told))
                    front.tell(done[-1])
        whole = all(outcome.result is TargetResult.DONE for outcome in done)
        return Ending(SUCCEEDED if whole else PARTLY_FAILED, value=done)

    def _batch(
        self, front: Front, means: Means, client: ElectionClient, batch: Sequence[ElectionTarget]
    ) -> Results:
        """The write is blind, so each partition is read immediately before it."""
        reading = client.reading()
        states = Observer(reading).states_and_moves(batch, Deadline.after(patience.REQUEST))
        results: Results = {}
        for one in batch:
            now = states.get(one.partition)
            same = (
                now is not None
                and still_ours(replace(one, order=one.assignment), now)
                and (now.topic_id, now.leader_epoch) == (one.topic_id, one.leader_epoch)
            )
            if front.stop() or not same:
                why = "stopped on request" if front.stop() else "it is not as it was: look again"
                results[one.partition] = TargetResult.FAILED, f"nothing was sent: {why}"
        sent = [one for one in batch if one.partition not in results]
        if not sent:
            return results
        request = means.journal.request(
            StepName.ADD_REPLICAS, {one.partition: described(one) for one in sent}
        )
        try:
            replies = client.reorder(
                {one.partition: one.order for one in sent},
                Deadline.after(patience.ELECTION),
                growing=True,
            )
            told: Results = {
                name: (TargetResult.FAILED, str(reply))
                for name, reply in replies.items()
                if not (reply.accepted or reply.unsettled)
            }
        except OutcomeUnknown:
            told = {}  # What is watched tells.
        except BreakglassError as error:
            failed = TargetResult.FAILED, str(error)
            told = dict.fromkeys((one.partition for one in sent), failed)
        told |= self._watched(front, reading, [one for one in sent if one.partition not in told])
        means.journal.outcome(
            request, {name: {"result": one[0], "reason": one[1]} for name, one in told.items()}
        )
        return results | told

    def _watched(self, front: Front, client: ReadClient, sent: Sequence[ElectionTarget]) -> Results:
        """How far each of *sent* is, once all are readable or no more is waited for.

        Before Kafka 4 a reassignment runs until every assigned replica is in sync, a dead one too.
        Two looks say so: the reassignments are read beside the partitions.
        """
        deadline, observer = Deadline.after(self.seconds), Observer(client)
        unheard = TargetResult.UNKNOWN, f"no broker shows it yet; {GOES_ON}"
        found: Results = dict.fromkeys((one.partition for one in sent), unheard)
        while waiting := [one for one in sent if found[one.partition][0] is not TargetResult.DONE]:
            with suppress(BreakglassError):
                states = observer.states_and_moves(waiting, Deadline.after(patience.LOOK))
                for outcome in _seen(client, waiting, states).values():
                    one, state = outcome.target, states[outcome.partition]
                    out = [broker for broker in one.order if broker not in state.isr]
                    reach = reach_text(outcome) or f"readable to offset {one.log_end}"
                    whole = still_ours(one, replace(state, reassignment=None))
                    whole = whole and (outcome.rung or 0) >= Rung.WRITABLE
                    whole = whole and set(out) <= set(one.assignment)
                    told = f"{named(state.isr)} in sync, {reach}"
                    if isinstance(state.reassignment, Reassignment):
                        told += f"; its reassignment ends once {named(out)} is in sync"
                        whole = whole and found[one.partition][1] == f"{told}; {GOES_ON}"
                    result = TargetResult.DONE if whole else TargetResult.UNKNOWN
                    found[one.partition] = result, told if whole else f"{told}; {GOES_ON}"
            if deadline.passed or front.stop():
                break
            front.tell(Underway(f"{len(waiting):,} of {len(sent):,} to come in sync"))
            time.sleep(min(LOOK_SECONDS, deadline.remaining()))
        return found


def _seen(client: ReadClient, targets: Sequence[ElectionTarget], states: States) -> Seen:
    """How far each of *targets* is, by its leader and *states*; without those not heard of."""
    elected = RecoveryResult.ELECTED
    outcomes = [
        PartitionOutcome(one, elected, "", one.designee, None, Rung.SERVING) for one in targets
    ]
    return seen_in(Observer(client), outcomes, states, Deadline.after(patience.LOOK))


def _room(
    client: ReadClient,
    cluster: ClusterDescription,
    states: Sequence[PartitionState],
    deadline: Deadline,
) -> LogRoom:
    """The room on live brokers, as far as they say."""
    sizes = ask_brokers(
        by_leader(states), lambda broker, held: client.log_dirs(broker, list(held), deadline)
    )
    usable: dict[int, int] = {}
    for broker in cluster.live if states else ():
        with suppress(BreakglassError):
            dirs = read_broker_log_dirs(client.sender, broker, deadline.sooner(patience.LOOK))
            left = [
                one.usable_bytes for one in dirs if isinstance(one.usable_bytes, int) and one.online
            ]
            usable |= {broker: max(left)} if left else {}
    kept = {name: log.size for name, log in sizes.items() if not isinstance(log, Unknown)}
    sizes_known = {name: size for name, size in kept.items() if isinstance(size, int)}
    return LogRoom(cluster, usable, sizes_known, {})


def phrase(targets: Sequence[ElectionTarget]) -> str:
    """``orders-3 gains b4``; in bulk ``5 partitions gain b4, b5``."""
    added = {broker for one in targets for broker in one.order if broker not in one.assignment}
    if len(targets) == 1:
        return f"{targets[0].partition} gains {named(sorted(added))}"
    return f"{partitions_text(len(targets))} gain {named(sorted(added))}"
