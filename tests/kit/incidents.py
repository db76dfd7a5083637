"""Canned incidents: what screens show when there is no cluster behind them."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from breakglass.services.incident.incident import Incident
from breakglass.services.incident.row import EvidenceChunk, IncidentRow, judged_rows
from breakglass.services.model import (
    PartitionEvidence,
    PartitionState,
    Reassignment,
    Role,
    TopicPartition,
    Unknown,
)
from breakglass.services.recovery.judgement.assessment import Judged
from breakglass.services.recovery.judgement.succession import Circumstances
from breakglass.services.recovery.judgement.verdict import assess
from breakglass.services.snapshot import Broker, ClusterDescription, ClusterSnapshot, Quorum, Voter
from tests.unit.recovery.replicas import PLAIN, TOPIC_ID, log, offline, silent, without_epochs

READ_AT_MS = 1_700_000_000_000
"""2023-11-14 22:13:20 UTC."""
CLUSTER = "prod-eu-1"
LAST = Role.LAST_KNOWN_ELR
QUORUM = Quorum(101, 4, 9_000, (Voter(101, 9_000, 0), Voter(102, 8_998, 2), Voter(103, 9_000, 0)))
HOSTILE_TOPIC = "orders\x1b[2J[red]x[/]\u202e注文-ä"

DEAD = silent(3, last_heard=replace(log(3, (0, 5)), observed_at_ms=READ_AT_MS - 60_000))
"""b3 told five records before it died, and nobody has led since: it holds no more than others."""
LEDGER = offline(
    log(2, (0, 100), (1, 150), hw=100),
    DEAD,
    log(1, (0, 100), (2, 125), hw=100),
    topic="ledger",
    number=3,
)
"""b1 and b2 diverge at 100, b3 is dead: electing b1 loses 50."""


def incident_of(
    *evidence: PartitionEvidence,
    fenced: Iterable[int] = (3,),
    dumb: Mapping[int, str] | None = None,
    awaited: Iterable[int] = (),
    quorum: Quorum | Unknown = QUORUM,
    missing_acls: tuple[str, ...] = (),
    online: Iterable[PartitionState] = (),
) -> Incident:
    """An incident of *evidence*, judged while brokers 1 to 4 are registered.

    *dumb* brokers do not answer, for the reason given there.
    """
    waiting = frozenset(awaited)
    circumstances = Circumstances(quorum, deadline_passed=not waiting)
    ordered = sorted(evidence, key=lambda evidence: evidence.partition)
    return Incident(
        snapshot_of(
            [evidence.state for evidence in ordered], fenced=fenced, quorum=quorum, online=online
        ),
        circumstances,
        tuple(judged_rows(ordered, circumstances, READ_AT_MS)),
        dumb or {},
        waiting,
        missing_acls,
    )


def snapshot_of(
    states: Iterable[PartitionState],
    *,
    fenced: Iterable[int] = (3,),
    quorum: Quorum | Unknown = QUORUM,
    online: Iterable[PartitionState] = (),
) -> ClusterSnapshot:
    """Brokers 1 to 4, two racks, and these partitions."""
    asleep = set(fenced)
    brokers = tuple(
        Broker(number, f"b{number}.example", 9092, "ab"[number % 2], number in asleep)
        for number in (1, 2, 3, 4)
    )
    partitions = tuple(sorted([*states, *online], key=lambda state: state.partition))
    settings = {partition.partition.topic: PLAIN for partition in partitions}
    description = ClusterDescription(CLUSTER, brokers, names_fenced=True)
    return ClusterSnapshot(description, quorum, partitions, READ_AT_MS, settings)


def online_partition(topic: str, number: int, leader: int = 1) -> PartitionState:
    """A partition that is led and in full sync."""
    return PartitionState(
        TopicPartition(topic, number), TOPIC_ID, leader, 4, (1, 2, 4), (1, 2, 4), (), ()
    )


def nothing_offline() -> Incident:
    """All is well."""
    return incident_of(
        fenced=(), online=[online_partition("orders", number) for number in range(3)]
    )


def diverged_incident() -> Incident:
    """`LEDGER` alone."""
    return incident_of(LEDGER)


def bomb(number: int, topic: str = "carts") -> PartitionEvidence:
    """b4 came back EMPTY and is about to be elected; b2 holds 150 records."""
    return offline(
        log(4, role=LAST), log(2, (0, 100), (1, 150), hw=150), DEAD, topic=topic, number=number
    )


def waiting(number: int, topic: str = "orders") -> PartitionEvidence:
    """b3 led last and is dead: started, it brings all back."""
    return offline(
        log(1, (0, 60 + number)),
        log(2, (0, 40)),
        silent(3, role=LAST),
        topic=topic,
        number=number,
        leader_epoch=1,
        floor=85 + number,
    )


def lossless(number: int, topic: str = "payments") -> PartitionEvidence:
    """b2 holds everything that can be read."""
    return offline(log(1, (0, 90)), log(2, (0, 150)), DEAD, topic=topic, number=number)


def forked(number: int, topic: str = "audit") -> PartitionEvidence:
    """Committed records on both sides."""
    return offline(
        log(1, (0, 1000), hw=990), log(2, (0, 10), (5, 12)), DEAD, topic=topic, number=number
    )


def moving(number: int, topic: str = "stock") -> PartitionEvidence:
    """A reassignment stands in the way."""
    return offline(
        log(1, (0, 9)), DEAD, topic=topic, number=number, reassignment=Reassignment((4,), (3,))
    )


def unproven(number: int, topic: str = "users") -> PartitionEvidence:
    """The epochs of b2 may not be read: the order is not proven, the loss unknown."""
    dead = silent(3, last_heard=replace(log(3, (5, 5)), observed_at_ms=READ_AT_MS - 60_000))
    return offline(log(1, (5, 100)), without_epochs(2, 150), dead, topic=topic, number=number)


def internal(number: int = 7) -> PartitionEvidence:
    """A partition that consumer groups depend on."""
    return offline(
        log(1, (0, 500), (3, 900), hw=880),
        log(2, (0, 500), (2, 940), hw=500),
        DEAD,
        topic="__consumer_offsets",
        number=number,
        settings=replace(PLAIN, compacted=True),
    )


def every_verdict() -> Incident:
    """Thirteen partitions: every verdict, three time bombs, an internal topic, unknowns."""
    return incident_of(
        *(bomb(number) for number in range(3)),
        *(waiting(number) for number in range(4)),
        LEDGER,
        lossless(1),
        forked(5),
        moving(2),
        unproven(6),
        internal(),
        dumb={3: "b3 does not answer (connection refused)"},
        online=[online_partition("orders", number) for number in range(100, 110)],
    )


def hostile_names() -> Incident:
    """Topic names and reasons that would act on a terminal, or be read as markup."""
    hostile = replace(
        silent(3),
        log_end=Unknown("\x1b]0;owned\x07 [bold]b3[/bold] does not answer\n\u202egnp.exe"),
    )
    return incident_of(
        offline(log(1, (0, 9)), hostile, topic=HOSTILE_TOPIC, number=0),
        offline(log(1, (0, 9)), silent(3), topic="[link=x]" + "t" * 240, number=1),
        dumb={3: "\x1b[31m[red]refused[/red]\x1b[0m"},
    )


def half_heard() -> Incident:
    """b2 is not fenced, hangs, and is still waited for; b3 is dead."""
    partitions = [
        offline(log(1, (0, 60)), silent(2, fenced=False), silent(3), topic="orders", number=number)
        for number in range(3)
    ]
    return incident_of(
        *partitions,
        unproven(6),
        dumb={2: "b2 does not answer (timed out)", 3: "b3 does not answer (connection refused)"},
        awaited=(2,),
        missing_acls=("READ on topic users",),
    )


def unread(count: int) -> Incident:
    """*count* offline partitions of which only the metadata has been read."""
    states = [waiting(number).state for number in range(count)]
    rows = tuple(IncidentRow(state) for state in states)
    return Incident(snapshot_of(states), Circumstances(QUORUM, deadline_passed=False), rows)


def many_offline(count: int, topics: int = 1) -> Incident:
    """*count* partitions of four verdicts, made at once: their evidence is made when asked for.

    They are spread over *topics*: ``orders``, or ``orders-000`` and so on. Most wait for b3.
    """
    circumstances = Circumstances(QUORUM)
    judged = [Judged.of(assess(kind(0, ""), circumstances)) for kind in _KINDS]
    models = [kind(0, "").state for kind in _KINDS]
    rows = []
    for name in sorted(
        ["orders"] if topics == 1 else [f"orders-{number:03}" for number in range(topics)]
    ):
        made_up = _MadeUp(name)
        for number in range(count // topics):
            kind = _kind(number)
            state = replace(models[kind], partition=TopicPartition(name, number))
            rows.append(IncidentRow(state, judged[kind], 150, made_up, number))
    return Incident(
        snapshot_of([row.state for row in rows]),
        circumstances,
        tuple(rows),
        {3: "b3 does not answer (connection refused)"},
    )


_KINDS = (waiting, lossless, bomb, forked)


def _kind(number: int) -> int:
    """Which of `_KINDS` the partition of that number is: a few in a hundred do not wait."""
    return {17: 1, 42: 1, 63: 2, 88: 3}.get(number % 100, 0)


class _MadeUp(EvidenceChunk):
    """Evidence of a topic's partitions, each made when it is asked for."""

    __slots__ = ("_topic",)

    def __init__(self, topic: str) -> None:
        super().__init__((), READ_AT_MS)
        self._topic = topic

    def evidence(self, place: int) -> PartitionEvidence:
        return _KINDS[_kind(place)](place, self._topic)
