"""What `breakglass doctor` found, as facts without I/O, and the check that each of them becomes.

A check is in order, or says what to do. What could not be found out is `unknown`, and never in
order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from breakglass.services.extras import how_to_install
from breakglass.services.model import NotOffered, Unknown
from breakglass.services.recovery.judgement.succession import RESTORE_QUORUM, quorum_lost
from breakglass.services.words.figures import size_text

if TYPE_CHECKING:
    from breakglass.services.recovery.judgement.succession import PassedOver
    from breakglass.services.snapshot import Quorum

NOT_ASKED = Unknown("the controller was not asked")


@dataclass(frozen=True, slots=True)
class TerminalFacts:
    """The terminal of this process, by its environment."""

    name: str
    """The value of TERM; empty where it is not set."""
    interactive: bool
    """Whether stdin and stdout are a terminal."""
    size: tuple[int, int]
    """Columns and rows."""
    ascii_only: bool
    colors: str


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """What this machine has."""

    version: str
    """The release of Breakglass."""
    python: str
    terminal: TerminalFacts
    encoding: str
    """How text is written to files and terminals."""
    locale_problem: str
    """Why the locale of the environment cannot be used; empty if it can."""
    missing: Mapping[str, tuple[str, ...]]
    """By extra: the packages that are not installed; extras that are whole are left out."""
    java: str | Unknown
    """The Java that Spark would run on."""
    rescue_folder: str
    free_bytes: int | Unknown
    """Free where rescues and journals are written."""
    writable: bool | Unknown
    """Whether that folder, or its nearest parent that is there, may be written to."""


@dataclass(frozen=True, slots=True)
class BrokerFacts:
    """How one broker answered."""

    id: int
    address: str
    """Where it was asked."""
    fenced: bool | Unknown
    trouble: str
    """Why it does not answer Breakglass's own client; empty if it does."""
    lacks: tuple[int, ...] = ()
    """Api keys of reads that it does not offer."""


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """How a cluster answered each client, and what it lets this user do."""

    servers: str
    """The bootstrap servers."""
    trouble: str = ""
    """Why the cluster could not be reached at all; empty if it was."""
    cluster_id: str = ""
    names_fenced: bool = False
    """Whether the cluster is of Kafka 4.0 or newer."""
    brokers: tuple[BrokerFacts, ...] = ()
    librdkafka: Mapping[int, str] | Unknown = field(default_factory=dict)
    """By broker: why it does not answer librdkafka; empty if it does."""
    cluster_rights: frozenset[str] | Unknown = frozenset()
    """What this user may do on CLUSTER: ``DESCRIBE``, ``ALTER``."""
    topic_rights: Mapping[str, frozenset[str]] | Unknown = field(default_factory=dict)
    """The same of each topic that this user may see."""
    ahead_ms: int | Unknown = NOT_ASKED
    """How far this machine's clock is ahead of the clock of the quorum's leader."""
    quorum: Quorum | Unknown = NOT_ASKED
    dynamic: bool | Unknown = NOT_ASKED
    """Whether the voters are in the metadata log, and not in every controller's settings."""
    racks: Mapping[int, str | None] = field(default_factory=dict)
    """By broker: a controller registers no rack, unless it is a broker as well."""
    passed_over: tuple[PassedOver, ...] | Unknown = ()
    """Brokers that elections passed over, by the journals of this account."""
    asked_with_addresses: bool = False
    """Whether brokers are reached at addresses that the operator gave in place of their own."""


ROOM = 1024**3
"""Bytes: with less, a rescue of a tail may not fit."""
SKEW_MS = 2_000
"""Times of records and journals cannot be compared any more."""
SMALLEST = (80, 24)
NEEDED_ON_TOPICS = ("READ", "DESCRIBE_CONFIGS")
NAMED = 3
"""How many topics or brokers are named in one line."""


class CheckState(StrEnum):
    """What became of a check."""

    OK = "ok"
    TODO = "do"
    """Something is wrong: the line says what to do."""
    NOTE = "note"
    """Nothing is wrong, and something is not possible here."""
    UNKNOWN = "?"
    """It could not be found out."""


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the doctor."""

    name: str
    state: CheckState
    found: str
    action: str = ""
    """What to do; empty where nothing is to be done."""


def _ok(name: str, found: str) -> Check:
    return Check(name, CheckState.OK, found)


def _todo(name: str, found: str, action: str) -> Check:
    return Check(name, CheckState.TODO, found, action)


def _note(name: str, found: str, action: str = "") -> Check:
    return Check(name, CheckState.NOTE, found, action)


def _unknown(name: str, why: str) -> Check:
    return Check(name, CheckState.UNKNOWN, why)


def machine_checks(facts: MachineFacts) -> Iterator[Check]:
    """What this machine has and lacks."""
    yield _ok("versions", f"Breakglass {facts.version}, Python {facts.python}")
    for extra, packages in sorted(facts.missing.items()):
        yield _note(
            f"extra {extra}",
            f"not installed ({', '.join(packages)})",
            f"where it is needed: {how_to_install(extra)}",
        )
    yield _java(facts)
    yield _terminal(facts.terminal)
    yield _locale(facts)
    yield _space(facts)


def _java(facts: MachineFacts) -> Check:
    if isinstance(facts.java, Unknown):
        action = "install Java 17 or newer, or set JAVA_HOME"
        if "pipeline" in facts.missing:
            return _note("java", facts.java.reason, f"where Spark is needed: {action}")
        return _todo("java", facts.java.reason, action)
    return _ok("java", facts.java)


def _terminal(terminal: TerminalFacts) -> Check:
    name = "terminal"
    if not terminal.interactive:
        return _note(name, "stdin or stdout is no terminal: commands work, the console does not")
    if terminal.name in ("", "dumb"):
        shown = terminal.name or "not set"
        return _todo(name, f"TERM is {shown}", "set TERM, as in TERM=xterm-256color")
    columns, rows = terminal.size
    if columns < SMALLEST[0] or rows < SMALLEST[1]:
        return _todo(name, f"{columns}x{rows}", "make it 80x24 or larger")
    ascii_only = ", drawn with ASCII only" if terminal.ascii_only else ""
    return _ok(name, f"{terminal.name}, {columns}x{rows}, {terminal.colors} colours{ascii_only}")


def _locale(facts: MachineFacts) -> Check:
    if facts.locale_problem:
        return _todo("locale", facts.locale_problem, "set LC_ALL=C.UTF-8")
    if facts.encoding.upper().replace("-", "") != "UTF8":
        return _todo("locale", f"text is written as {facts.encoding}", "set LC_ALL=C.UTF-8")
    return _ok("locale", facts.encoding)


def _space(facts: MachineFacts) -> Check:
    name, place = "space for a rescue", facts.rescue_folder
    free = facts.free_bytes
    if isinstance(free, Unknown):
        return _unknown(name, f"{place}: {free.reason}")
    if facts.writable is not True:
        return _todo(name, f"{place} cannot be written", "check its rights, or set XDG_STATE_HOME")
    if free < ROOM:
        return _todo(
            name,
            f"{size_text(free)} free in {place}",
            "free space, or name a larger disk: `breakglass rescue --rescue-to DIR`",
        )
    return _ok(name, f"{size_text(free)} free in {place}")


def cluster_checks(facts: ClusterFacts) -> Iterator[Check]:
    """How the cluster answers; what depends on a cluster that does not answer is unknown."""
    if facts.trouble:
        yield Check("cluster", CheckState.TODO, facts.servers, facts.trouble)
        for name in ("brokers", "quorum", "librdkafka", "spark", "ACLs", "clock"):
            yield _unknown(name, "the cluster does not answer")
        return
    yield _ok("cluster", f"{facts.cluster_id} at {facts.servers}")
    yield _release(facts)
    silent = [broker for broker in facts.brokers if broker.trouble]
    for broker in silent:
        yield _silent(broker, facts)
    answering = len(facts.brokers) - len(silent)
    if answering:
        yield _ok("brokers", f"{answering:,} of {len(facts.brokers):,} answer")
    yield _quorum(facts)
    yield from _librdkafka(facts)
    yield from _rights(facts)
    yield _clock(facts.ahead_ms)
    yield from _passed_over(facts.passed_over)


def _passed_over(found: tuple[PassedOver, ...] | Unknown) -> Iterator[Check]:
    """Brokers whose start would cut logs in partitions that have a leader (R27)."""
    if isinstance(found, Unknown):
        yield _unknown("journals", found.reason)
        return
    for one in found:
        yield _todo("journals", one.sentence, one.act)


def _release(facts: ClusterFacts) -> Check:
    lacking = sorted({key for broker in facts.brokers for key in broker.lacks})
    if lacking:
        keys = ", ".join(map(str, lacking))
        return _note("brokers' release", f"some brokers lack requests (api keys {keys})")
    if not facts.names_fenced:
        return _note("brokers' release", "before Kafka 4.0: fenced brokers are not listed")
    return _ok("brokers' release", "Kafka 4.0 or newer")


def _silent(broker: BrokerFacts, facts: ClusterFacts) -> Check:
    name, found = f"broker b{broker.id}", f"{broker.address}: {broker.trouble}"
    if broker.fenced is True:
        return _todo(name, f"{found}; it is fenced", "find out whether it runs: see `triage`")
    action = (
        "check the address given with --broker-address"
        if facts.asked_with_addresses
        else "it runs for its controller: check the way there and its advertised.listeners, or "
        f"name another address with --broker-address {broker.id}=HOST:PORT"
    )
    return _todo(name, found, action)


def _quorum(facts: ClusterFacts) -> Check:
    """What would leave the cluster without a leader of the controllers, before it does."""
    name, quorum = "quorum", facts.quorum
    if lost := quorum_lost(quorum):
        return _todo(name, lost, RESTORE_QUORUM)
    if isinstance(quorum, Unknown):
        return _unknown(name, quorum.reason)
    kind = "" if isinstance(facts.dynamic, Unknown) else " dynamic" if facts.dynamic else " static"
    voters = [voter.id for voter in quorum.voters]
    found = f"{len(voters)}{kind} voters, led by controller {quorum.leader}"
    silent = [f"{voter.id}" for voter in quorum.voters if not voter.fetches]
    racks = {facts.racks.get(voter) for voter in voters}
    if silent:
        missing = f"not following: {', '.join(silent)}"
        return _todo(name, f"{found}; {missing}", "start them with their own disks")
    if len(voters) == 1:
        return _note(
            name,
            f"controller {quorum.leader} is the only{kind} voter",
            "run three: without its disk, only the brokers have copies of the metadata",
        )
    if len(racks) == 1 and None not in racks:
        return _note(name, f"{found}, each in rack {racks.pop()}", "spread them over three racks")
    return _ok(name, found)


def _librdkafka(facts: ClusterFacts) -> Iterator[Check]:
    """Participants of checkpoints use librdkafka; all else uses Breakglass's own client."""
    found = facts.librdkafka
    if isinstance(found, NotOffered):
        yield _note("librdkafka", found.reason)
    elif isinstance(found, Unknown):
        yield _todo(
            "librdkafka",
            found.reason,
            "participants of checkpoints need it: check sasl.* and ssl.*",
        )
    else:
        own = {broker.id for broker in facts.brokers if broker.trouble}
        silent = {broker: why for broker, why in found.items() if why and broker not in own}
        if silent:
            yield _todo(
                "librdkafka",
                _named([f"b{broker} ({why})" for broker, why in sorted(silent.items())]),
                "it connects to the advertised names alone: see that they resolve where "
                "participants of checkpoints run",
            )
        else:
            yield _ok("librdkafka", f"{len(found):,} brokers that lead partitions answer it")
    if any(broker.trouble for broker in facts.brokers):
        yield _note("spark", "its tasks use Breakglass's own client: see the brokers above")
    else:
        yield _ok("spark", "its tasks use Breakglass's own client, which reaches every broker")


def _rights(facts: ClusterFacts) -> Iterator[Check]:
    """What a triage needs; what an election needs besides is a note."""
    missing = list(_missing_rights(facts))
    if missing:
        yield _todo(
            "ACLs",
            f"missing: {'; '.join(missing)}",
            "have an administrator add them: docs/acls.md says how",
        )
    elif isinstance(facts.cluster_rights, Unknown) or isinstance(facts.topic_rights, Unknown):
        unread = [
            rights.reason
            for rights in (facts.cluster_rights, facts.topic_rights)
            if isinstance(rights, Unknown)
        ]
        yield _unknown("ACLs", "; ".join(unread))
    else:
        yield _ok("ACLs", f"all that a triage needs, on {len(facts.topic_rights):,} topics")
    if not isinstance(facts.cluster_rights, Unknown) and "ALTER" not in facts.cluster_rights:
        yield _note("ACLs of elections", "missing: ALTER on CLUSTER", "an election needs it")


def _missing_rights(facts: ClusterFacts) -> Iterator[str]:
    if not isinstance(facts.cluster_rights, Unknown) and "DESCRIBE" not in facts.cluster_rights:
        yield "DESCRIBE on CLUSTER"
    if isinstance(facts.topic_rights, Unknown):
        return
    for right in NEEDED_ON_TOPICS:
        without = sorted(
            topic for topic, rights in facts.topic_rights.items() if right not in rights
        )
        if without:
            yield f"{right} on {_named([f'topic {topic}' for topic in without])}"


def _clock(ahead_ms: int | Unknown) -> Check:
    if isinstance(ahead_ms, Unknown):
        return _unknown("clock", ahead_ms.reason)
    shown = f"{abs(ahead_ms) / 1000:,.1f} s {'ahead of' if ahead_ms >= 0 else 'behind'}"
    if abs(ahead_ms) > SKEW_MS:
        return _todo("clock", f"{shown} the controller's", "let both clocks follow NTP")
    return _ok("clock", f"within {SKEW_MS / 1000:g} s of the controller's; brokers tell no time")


def _named(names: Sequence[str]) -> str:
    """The first of *names*, and how many more there are."""
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more:,} more" if more > 0 else "")
