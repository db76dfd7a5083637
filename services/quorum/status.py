"""Who of the controllers and brokers answers, and what each knows of the metadata log.

Only a controller that leads knows the voters, the observers and where their logs end. Brokers
forward the question to it, and without a leader no answer comes. Then there is left (3.9.2, 4.3.1):

- of a controller that does not lead, the controllers that have registered (DescribeCluster), and
  its epoch, which stands in its answer to a Fetch;
- of a broker, the offset up to which it has applied the log (ApiVersions), and the addresses of
  the controllers in its settings.

No node says since when there has been no leader. The copies do: by the time of the newest record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from breakglass.services import patience
from breakglass.services.connection.endpoint import Endpoint, parse_endpoint
from breakglass.services.errors import (
    BadConnectionSettings,
    BreakglassError,
    ClusterError,
    MalformedMessage,
    Unreachable,
    UnsupportedByCluster,
)
from breakglass.services.kafka.cluster.describe_cluster import (
    BROKERS,
    CLUSTER_METADATA_TOPIC,
    CONTROLLERS,
    KRAFT_VERSION,
    SILENT_QUORUM,
    describe_cluster,
    heard_by_controllers,
    quorum_members,
)
from breakglass.services.kafka.cluster.settings import read_controllers
from breakglass.services.kafka.replicas.list_offsets import NO_SESSION
from breakglass.services.kafka.wire.connection import listens
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.messages.reading import FetchRequest, FetchResponse
from breakglass.services.kafka.wire.sender import ANY_BROKER, Sender
from breakglass.services.model import Unknown
from breakglass.services.quorum.image import Key
from breakglass.services.recovery.judgement.succession import quorum_lost, without_quorum
from breakglass.services.snapshot import Broker, Quorum, Voter
from breakglass.services.words.figures import count

if TYPE_CHECKING:
    from breakglass.services.kafka.read_client import ReadClient

TIMED_OUT = "timed out"
AT_ONCE = 64
MOST_ADDRESSES = 200
"""Controllers name others, and these are asked in turn."""
METADATA_ID = UUID(int=1)
"""Uuid.METADATA_TOPIC_ID."""
UNASKED = Unknown("it was not asked")
NO_LEADER = Unknown("only a controller that leads knows it")
DO_NOT = (
    "Do not format a controller, and stop what does so by itself (operators, --ignore-formatted): "
    "a majority of blank controllers elects a leader with an empty log, and brokers then rename "
    "the folders of their topics to -stray.",
    "Do not stop or restart brokers. Those that run go on serving each partition whose ISR members "
    "all run; without a controller no leader is elected and no ISR changes.",
    "Do not start brokers that are down before a controller leads: under an older copy of the "
    "metadata a broker truncates its own, better copy.",
)


class QuorumRole(StrEnum):
    """What a node is in the quorum."""

    LEADER = "leader"
    VOTER = "voter"
    OBSERVER = "observer"
    UNKNOWN = "?"


@dataclass(frozen=True, slots=True)
class QuorumNode:
    """A controller or a broker; of one that is both there are two."""

    id: int | None
    """None: it answers at an address that has no id."""
    broker: bool
    address: str
    trouble: str
    """Why it does not answer; empty if it does."""
    applied: int | Unknown
    """A broker has applied the log up to this offset, so its log does not end before it."""
    role: QuorumRole
    epoch: int | Unknown
    log_end: int | Unknown
    """By the leader, as what follows."""
    lag: int | Unknown
    silent_ms: int | Unknown
    """How long ago it fetched from the leader."""
    waits: bool = False
    """A controller that refuses to answer for the cluster, as it does without a leader."""

    @property
    def name(self) -> str:
        return f"{'b' if self.broker else 'c'}{'?' if self.id is None else self.id}"

    @property
    def answers(self) -> str:
        """Whether it answers, or why not."""
        return self.trouble or ("runs, waits for a majority" if self.waits else "yes")

    @property
    def log_end_text(self) -> str:
        """By the leader; without one, the least that it can be."""
        if isinstance(self.log_end, Unknown) and isinstance(self.applied, int):
            return f">= {self.applied:,}"
        return count(self.log_end)


@dataclass(frozen=True, slots=True)
class QuorumStatus:
    """The controllers and brokers of a cluster, and who leads, at one moment."""

    cluster_id: str
    quorum: Quorum | Unknown
    dynamic: bool | Unknown
    voters: tuple[int, ...]
    """By the leader; without one, by the brokers' settings or by what controllers know; or none."""
    nodes: tuple[QuorumNode, ...]

    @property
    def leader(self) -> int | None:
        return self.quorum.leader if isinstance(self.quorum, Quorum) else None

    @property
    def majority(self) -> int:
        return len(self.voters) // 2 + 1

    @property
    def missing(self) -> tuple[QuorumNode, ...]:
        """Voters that neither answer nor fetch from the leader."""
        fetching = self._fetching
        return tuple(one for one in self._silent if one.id not in fetching)

    @property
    def unheard(self) -> tuple[QuorumNode, ...]:
        """Voters that do not answer from here, and have fetched from the leader lately."""
        fetching = self._fetching
        return tuple(one for one in self._silent if one.id in fetching)

    @property
    def _silent(self) -> tuple[QuorumNode, ...]:
        silent = (one for one in self.nodes if not one.broker and one.trouble)
        return tuple(one for one in silent if one.id in self.voters)

    @property
    def _fetching(self) -> set[int]:
        known = self.quorum.voters if isinstance(self.quorum, Quorum) else ()
        return {voter.id for voter in known if voter.fetches}

    @property
    def lacking(self) -> int:
        """How many voters have to return before a controller can lead; 0 if none is known."""
        present = len(self.voters) - len(self.missing)
        return max(0, self.majority - present) if self.voters else 0

    @property
    def ahead(self) -> tuple[QuorumNode, ...]:
        """Brokers that have applied more than the leader has; these were asked before it."""
        ends = [one.log_end for one in self.nodes if one.role is QuorumRole.LEADER]
        end = max((one for one in ends if isinstance(one, int)), default=None)
        if end is None:
            return ()
        return tuple(
            one
            for one in self.nodes
            if one.broker and isinstance(one.applied, int) and one.applied > end
        )

    @property
    def in_order(self) -> bool:
        return self.leader is not None and not self.lacking and not self.ahead

    def _hanging(self) -> Iterator[str]:
        """What to do with voters that are missing, but may run."""
        hanging = [one.name for one in self.missing if TIMED_OUT in one.trouble]
        if hanging:
            yield f"The process of {_listed(hanging)} may hang: stop it before you start it again."

    def about(self) -> str:
        """The cluster, the kind of its quorum, and the voters."""
        kind = "?" if isinstance(self.dynamic, Unknown) else "dynamic" if self.dynamic else "static"
        voters = ", ".join(map(str, self.voters)) or "unknown"
        return f"Cluster {self.cluster_id or '?'}, {kind} quorum, voters: {voters}."

    def advice(self) -> Iterator[str]:
        """What to do first, then what not to do, in sentences."""
        missing, lacking = [one.name for one in self.missing], self.lacking
        present = len(self.voters) - len(missing)
        if ahead := self.ahead:
            ends = (one.log_end for one in self.nodes if one.role is QuorumRole.LEADER)
            applied = max(one.applied for one in ahead if isinstance(one.applied, int))
            yield (
                f"Controller {self.leader} leads with a log that ends at {next(ends):,}, and "
                f"{_listed(one.name for one in ahead)} applied one up to {applied:,}: its log is "
                "blank or lags. Stop this controller, then compare the copies that controllers and "
                "brokers have: breakglass quorum inspect."
            )
            yield (
                "Do not start or restart brokers: under this log they rename the folders of their "
                "topics to -stray."
            )
            yield DO_NOT[0]
            return
        these = f"{present} of {len(self.voters)} voters answer{'s' * (present == 1)}"
        if self.leader is not None and not lacking:
            assert isinstance(self.quorum, Quorum)
            leads = f"Controller {self.leader} leads at epoch {self.quorum.leader_epoch:,}"
            if missing:
                last = " If one more stops, no controller leads." * (present == self.majority)
                own = "its own disk" if len(missing) == 1 else "their own disks"
                yield f"{leads}, and {these}. Start {_listed(missing)} with {own}.{last}"
            elif len(self.voters) == 1:
                yield f"{leads}. It is the only voter: if its disk is lost, no other can lead."
            elif unheard := self.unheard:
                yield (
                    f"{leads}. {_listed(one.name for one in unheard)} did not answer, but fetched "
                    "from the leader in the last 10 s: if it may be down, look again."
                )
            else:
                yield f"{leads}, and all {len(self.voters)} voters answer."
            yield from self._hanging()
            return
        if isinstance(self.quorum, Unknown) and not (quorum_lost(self.quorum) or lacking):
            yield f"It is unknown if a controller leads: {self.quorum.reason}."
        elif lacking:
            which = _listed(missing)
            if lacking < len(missing):
                which = f"{lacking} of {which}" if lacking > 1 else _listed(missing, "or")
            own = "its own disk" if lacking == 1 else "their own disks"
            yield (
                f"No controller leads: {these}, and a majority is {self.majority}. Start {which} "
                f"with {own}; then nothing else is needed."
            )
            yield from self._hanging()
        elif self.voters:
            yield (
                f"No controller leads, but {these}, and a majority is {self.majority}: look again "
                "in 10 seconds. If it stays so, check that these controllers reach each other."
            )
        else:
            yield (
                f"{without_quorum('No controller leads')}. No node that was asked knows the "
                "voters: name more with --bootstrap-server or --bootstrap-controller."
            )
        yield from DO_NOT
        yield (
            "If the disks of a majority are lost, start no node, and compare the copies that "
            "controllers and brokers have: breakglass quorum inspect. The time of the newest "
            "record says since when there has been no leader; no running node knows it."
        )


@dataclass(frozen=True, slots=True)
class _HeardController:
    """What one address of a controller answered."""

    trouble: str = ""
    cluster_id: str = ""
    registered: Mapping[int, Endpoint] = field(default_factory=dict)
    members: tuple[Quorum, tuple[Voter, ...]] | Unknown = UNASKED
    epoch: int | Unknown = UNASKED
    levels: Mapping[str, int] = field(default_factory=dict)
    waits: bool = False


class _HeardBroker(NamedTuple):
    broker: Broker
    trouble: str = ""
    applied: int | Unknown = UNASKED
    levels: Mapping[str, int] = MappingProxyType({})


Members = tuple[Quorum, tuple[Voter, ...]]
"""Voters and observers, by the leader."""


def look_at_quorum(
    client: ReadClient | None,
    controllers: Sequence[Endpoint],
    reach: Callable[[Endpoint], Sender],
    seconds: float = patience.BRIEF,
    before: Mapping[Endpoint, int | None] = MappingProxyType({}),
) -> QuorumStatus:
    """Ask the brokers of *client*, and every controller that is given or known, by *reach*.

    Each node has some *seconds* to answer. *before* has the controllers of an earlier look.

    Raises:
        Unreachable: no broker answers, and no controller was given.
        WrongCluster: the brokers are of another cluster than this session has read.
    """
    ids: dict[Endpoint, int | None] = {**dict.fromkeys(controllers), **before}
    members: Members | Unknown = SILENT_QUORUM
    cluster_id, settings = "", ""
    brokers: tuple[_HeardBroker, ...] = ()
    if client is not None:
        deadline = Deadline.after(patience.COMMAND)
        try:
            described = client.describe(deadline.sooner(patience.REQUEST))
            cluster_id = described.cluster_id
            settings = read_controllers(client.sender, described.live, deadline)
            ids |= _in_settings(settings)
            brokers = _ask_brokers(client.sender, described.brokers, seconds)
            answering = [one.broker.id for one in brokers if not one.trouble]
            asked_by = heard_by_controllers(client.sender, answering[:AT_ONCE], deadline)
            best = ANY_BROKER if asked_by is None else asked_by
            members = quorum_members(client.sender, deadline, best)
        except Unreachable as error:
            if not ids:
                raise
            members = Unknown(f"the brokers do not answer ({error.reason})")
    heard: dict[Endpoint, _HeardController] = {}
    while asked := [at for at in [*ids][:MOST_ADDRESSES] if at not in heard]:
        with ThreadPoolExecutor(AT_ONCE, "controllers") as asking:
            answers = asking.map(lambda at: _ask_controller(reach(at), seconds), asked)
            heard |= zip(asked, answers, strict=True)
        cluster_id = cluster_id or next(filter(None, (heard[at].cluster_id for at in asked)), "")
        for address in asked:
            if heard[address].cluster_id not in ("", cluster_id):
                other = f"a controller of cluster {heard[address].cluster_id}"
                heard[address] = _HeardController(f"the address leads to {other}")
            ids |= {at: node for node, at in heard[address].registered.items()}
    for one in heard.values():
        if not isinstance(one.members, Unknown) and one.members[0].leader is not None:
            members = one.members
    said = [*(one.levels for one in heard.values()), *(one.levels for one in brokers)]
    levels = dict(chain.from_iterable(one.items() for one in said))
    listed = tuple(node for node in _in_settings(settings).values() if node is not None)
    dynamic: bool | Unknown = Unknown("no node says its kraft.version")
    if KRAFT_VERSION in levels or listed:
        dynamic = levels.get(KRAFT_VERSION, 0) > 0
    voters = listed
    if dynamic or not listed:
        voters = tuple(sorted({node for node in ids.values() if node is not None}))
    if not isinstance(members, Unknown):
        voters = tuple(voter.id for voter in members[0].voters)
    return QuorumStatus(
        cluster_id=cluster_id,
        quorum=members if isinstance(members, Unknown) else members[0],
        dynamic=dynamic,
        voters=voters,
        nodes=tuple(_nodes(ids, heard, brokers, voters, members)),
    )


def _in_settings(text: str) -> dict[Endpoint, int | None]:
    """The addresses in *text*, ``101@c1:9093, 102@c2:9093`` or ``c1:9093``, with their ids."""
    found: dict[Endpoint, int | None] = {}
    for part in filter(None, text.split(", ")):
        node, _, address = part.rpartition("@")
        with suppress(BadConnectionSettings):
            found[parse_endpoint(address, "controllers")] = int(node) if node.isdecimal() else None
    return found


def _ask_brokers(
    sender: Sender, brokers: Sequence[Broker], seconds: float
) -> tuple[_HeardBroker, ...]:
    def ask(broker: Broker) -> _HeardBroker:
        try:
            levels, offset = sender.finalized(broker.id, Deadline.after(seconds))
        except BreakglassError as error:
            return _HeardBroker(broker, _trouble(error))
        applied = offset + 1 if offset >= 0 else Unknown("the broker does not say it")
        return _HeardBroker(broker, "", applied, levels)

    with ThreadPoolExecutor(AT_ONCE, "brokers") as asking:
        return tuple(asking.map(ask, brokers))


def _ask_controller(sender: Sender, seconds: float) -> _HeardController:
    """What a controller says that *sender* reaches, which is closed."""
    deadline = Deadline.after(seconds)
    with closing(sender):
        try:
            levels = sender.finalized(ANY_BROKER, deadline).levels
            described = describe_cluster(sender, deadline, CONTROLLERS)
        except BreakglassError as error:
            if _refuses(error):
                # Started again without a majority, it does not know the metadata.version.
                return _HeardController(epoch=_epoch(sender, deadline), waits=True)
            return _HeardController(_trouble(error))
        return _HeardController(
            cluster_id=described.cluster_id,
            registered={one.id: Endpoint(one.host, one.port) for one in described.brokers},
            members=quorum_members(sender, deadline),
            epoch=_epoch(sender, deadline),
            levels=levels,
        )


def _refuses(error: BreakglassError) -> bool:
    """Whether a node of Kafka that knows the question answered, with an error."""
    others = (MalformedMessage, UnsupportedByCluster)
    return isinstance(error, ClusterError) and not isinstance(error, others)


def _trouble(error: BreakglassError) -> str:
    return error.reason if isinstance(error, Unreachable) else str(error)


def _epoch(sender: Sender, deadline: Deadline) -> int | Unknown:
    """The epoch of a controller, which stands in every answer to a Fetch, be it refused."""
    topic_class = FetchRequest.FetchTopic
    wanted = topic_class.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)
    topic = topic_class(topic=CLUSTER_METADATA_TOPIC, topic_id=METADATA_ID, partitions=[wanted])
    request = FetchRequest(max_wait_ms=0, min_bytes=0, session_epoch=NO_SESSION, topics=[topic])
    try:
        answer = sender.call(ANY_BROKER, request, FetchResponse, deadline)
    except BreakglassError as error:
        return Unknown(str(error))
    epochs = [
        one.current_leader.leader_epoch
        for topic in answer.responses
        for one in topic.partitions
        if one.current_leader is not None
    ]
    return epochs[0] if epochs and epochs[0] >= 0 else Unknown("the controller does not say it")


def _nodes(
    ids: Mapping[Endpoint, int | None],
    heard: Mapping[Endpoint, _HeardController],
    brokers: Sequence[_HeardBroker],
    voters: Sequence[int],
    members: Members | Unknown,
) -> Iterator[QuorumNode]:
    """Controllers, then brokers."""
    by_id: dict[int | None, list[Endpoint]] = {voter: [] for voter in voters}
    for address, node in ids.items():
        by_id.setdefault(node, []).append(address)
    for address in by_id.pop(None, ()):
        facts = _facts(None, voters, members, heard[address].epoch)
        yield QuorumNode(None, False, str(address), heard[address].trouble, UNASKED, *facts)
    for node, addresses in sorted(by_id.items(), key=lambda row: row[0] or 0):
        # An address that answers, if the controller has one.
        at = min(addresses, key=lambda one: bool(heard[one].trouble), default=None)
        said = _HeardController("its address is unknown") if at is None else heard[at]
        facts, where = _facts(node, voters, members, said.epoch), str(at or "?")
        yield QuorumNode(node, False, where, said.trouble, UNASKED, *facts, said.waits)
    for asked in brokers:
        broker = asked.broker
        facts = _facts(broker.id, voters, members, UNASKED)
        where = str(Endpoint(broker.host, broker.port))
        yield QuorumNode(broker.id, True, where, asked.trouble, asked.applied, *facts)


def _facts(
    node: int | None, voters: Sequence[int], members: Members | Unknown, epoch: int | Unknown
) -> tuple[QuorumRole, int | Unknown, int | Unknown, int | Unknown, int | Unknown]:
    """Role, epoch, log end, lag, and how long ago it fetched."""
    role = QuorumRole.VOTER if node in voters else QuorumRole.OBSERVER
    if isinstance(members, Unknown):
        role = QuorumRole.UNKNOWN if node is None else role
        return role, epoch, NO_LEADER, NO_LEADER, NO_LEADER
    quorum, observers = members
    known = next((one for one in (*quorum.voters, *observers) if one.id == node), None)
    if known is None:
        return QuorumRole.UNKNOWN, epoch, UNASKED, UNASKED, UNASKED
    if node == quorum.leader:
        role = QuorumRole.LEADER
    at = quorum.leader_epoch if known.fetches else epoch
    return role, at, known.log_end_offset, known.lag, known.silent_ms


def _listed(names: Iterable[str], joint: str = "and") -> str:
    """``c101``, ``c101 and c102``, ``c101, c102 and c103``."""
    *some, last = names
    return f"{', '.join(some)} {joint} {last}" if some else last


class AnsweringNode(NamedTuple):
    """A node that the copies name, and that runs now, as far as can be known from here."""

    node: int
    broker: bool
    address: str
    asked: bool
    """It answered; else something accepts connections at its address, or connecting timed out."""
    applied: int | Unknown = UNASKED
    """The offset up to which a broker has applied the metadata log."""

    @property
    def name(self) -> str:
        return f"{'b' if self.broker else 'c'}{self.node}"


def answering_nodes(
    state: Mapping[Key, Any],
    cluster_id: str | Unknown,
    reach: Callable[[Endpoint], Sender],
    seconds: float = patience.LOOK,
) -> tuple[AnsweringNode, ...]:
    """Which controllers and brokers of *state* answer at the addresses that they registered.

    A node of another cluster that has the address by now is none of them.
    """
    places = [
        (key[1], key[0] == "broker", Endpoint(host, port))
        for key, registered in state.items()
        if key[0] in ("broker", "controller")
        for _, host, port in registered.endpoints
    ]

    def ask(place: tuple[int, bool, Endpoint]) -> AnsweringNode | None:
        node, broker, address = place
        if listens(address, Deadline.after(seconds)) is False:
            return None
        found = AnsweringNode(node, broker, str(address), asked=False)
        deadline = Deadline.after(seconds)
        with closing(reach(address)) as sender:
            try:
                described = describe_cluster(sender, deadline, BROKERS if broker else CONTROLLERS)
                if described.cluster_id != cluster_id:
                    return None
                applied = sender.finalized(ANY_BROKER, deadline).offset + 1
            except BreakglassError as error:
                return found._replace(asked=not broker and _refuses(error))
            return found._replace(asked=True, applied=applied or UNASKED)

    with ThreadPoolExecutor(AT_ONCE, "answering") as asking:
        found = [one for one in asking.map(ask, places) if one is not None]
    # One of its addresses is enough: the one that was asked.
    best = {(one.broker, one.node): one for one in sorted(found, key=lambda one: one.asked)}
    return tuple(best[key] for key in sorted(best))
