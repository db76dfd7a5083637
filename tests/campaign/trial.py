"""One incident from beginning to end: played, recovered, and judged by what the disks held."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from confluent_kafka import KafkaException

from breakglass.bookkeeping.judge import JudgeFinding, SavedRecord, check_said, read_rescues
from breakglass.bookkeeping.log_files import (
    NO_LOG,
    DamagedLog,
    DiskReading,
    FolderLog,
    HeldRecord,
    Name,
    digest,
)
from breakglass.bookkeeping.producer import Book, ClusterState, changes, read_cluster
from breakglass.services.errors import LabError, Unreachable
from breakglass.services.kafka.cluster.group_offsets import OFFSETS_TOPIC
from breakglass.services.lab.incidents.incident import LabIncident, Way
from breakglass.services.lab.incidents.wreck import GROUP, Wreck
from tests.campaign.by_breakglass import Operator, bootstrap_of, shell_of
from tests.campaign.by_kafka import Runbook
from tests.campaign.commands import HUNG, Shell
from tests.campaign.judge import (
    Saved,
    check_groups,
    check_missing,
    check_open,
    check_put_back,
    missing_findings,
)
from tests.campaign.second_round import FIRST_ROUND
from tests.campaign.sentences import check_rescued, check_sentences, unjudged

INTERNAL = {"__consumer_offsets", "__transaction_state"}
HANG_SECONDS = 300.0
"""It only ends a wait in vain."""
PLAY_FAILURES = (LabError, Unreachable, DamagedLog, KafkaException)
"""What a lab on a busy machine may do: the incident counts as not played."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one recovery of one incident."""

    way: Way
    offline: int = 0
    """Partitions without leader when the operator came."""
    left: int = 0
    """Partitions without leader when the operator left."""
    elected: int = 0
    """Partitions that our commands elected; 0 for Kafka's tools, which do not say."""
    held: int = 0
    """Records that readable replicas of the offline partitions held."""
    lost: int = 0
    """Of these, the records that an election lost: in neither the elected logs nor a rescue."""
    cut: int = 0
    """The same where a broker that was started led by itself, and others cut what it lacked."""
    rescued: int = 0
    put_back: int = 0
    seconds: float = 0.0
    """Until the operator left, before anything was put back."""
    put_back_seconds: float = 0.0
    commands: int = 0
    phrases: int = 0
    resumed: int = 0
    findings: tuple[JudgeFinding, ...] = ()
    broken: str = ""
    """Why the incident could not be played or judged; empty as a rule."""

    @property
    def passed(self) -> bool:
        """Nothing was found and nothing went wrong."""
        return not self.findings and not self.broken


@dataclass(frozen=True, slots=True)
class _Scene:
    """The damage as it was when the operator came."""

    disks: DiskReading
    offline: frozenset[Name]
    state: ClusterState


def recover_by_breakglass(incident: LabIncident, folder: Path, *, put_back: bool = True) -> Outcome:
    """Play *incident* on a lab in *folder*, and recover it as its way says."""

    def recovered(wreck: Wreck) -> Outcome:
        with shell_of(wreck, folder / "ours", incident.kill_at) as shell:
            try:
                return _ours(wreck, shell, put_back=put_back)
            finally:
                # Keep every command with what it printed.
                text = "\n".join(map(str, shell.ran))
                (shell.folder / "commands.txt").write_text(text, encoding="utf-8")
                left = "\n".join(unjudged("\n".join(ran.err for ran in shell.ran)))
                (shell.folder / "unjudged.txt").write_text(left, encoding="utf-8")

    return _played(incident, folder, incident.way, recovered)


def recover_by_kafka(incident: LabIncident, folder: Path) -> Outcome:
    """Play *incident* on a lab in *folder*, and recover it by Kafka's own tools."""

    def recovered(wreck: Wreck) -> Outcome:
        # Without slow links: Kafka's tools cannot be told other addresses.
        near = replace(wreck, incident=replace(incident, slow=()))
        with shell_of(near, folder / "kafka", None) as shell:
            return _kafkas(wreck, shell)

    return _played(incident, folder, Way.KAFKA, recovered, keep=False)


def _played(
    incident: LabIncident,
    folder: Path,
    way: Way,
    recovered: Callable[[Wreck], Outcome],
    *,
    keep: bool = True,
) -> Outcome:
    try:
        wreck = Wreck.start(incident, folder / "lab")
    except LabError as error:
        return Outcome(way, broken=str(error))
    try:
        wreck.play()
        return recovered(wreck)
    except PLAY_FAILURES as error:
        return Outcome(way, broken=f"{type(error).__name__}: {error}")
    finally:
        wreck.cluster.down(keep=keep)


def _scene(wreck: Wreck) -> _Scene:
    state = read_cluster(wreck.cluster.lab_bootstrap)
    return _Scene(wreck.read(), frozenset(wreck.offline()), state)


def _kafkas(wreck: Wreck, shell: Shell) -> Outcome:
    scene = _scene(wreck)
    runbook = Runbook(wreck, shell)
    began = time.monotonic()
    if scene.offline:
        runbook.recover()
    seconds = time.monotonic() - began
    wreck.settle()
    readable = _required(scene, runbook.started)
    lost, cut = _split(_lost(wreck, readable, {}), scene.offline - runbook.elected)
    return Outcome(
        Way.KAFKA,
        offline=len(scene.offline),
        left=len(wreck.offline() & scene.offline),
        held=_count(readable),
        lost=lost,
        cut=cut,
        seconds=round(seconds, 1),
        commands=shell.commands,
    )


def _ours(wreck: Wreck, shell: Shell, *, put_back: bool) -> Outcome:
    scene, incident = _scene(wreck), wreck.incident
    operator = Operator(wreck, shell, curable=incident.curable)
    began, earlier = time.monotonic(), list[JudgeFinding]()
    first: Saved = {}
    if scene.offline and incident.first:
        operator.curable = ()
        operator.recover_first()
        if not wreck.awake:
            return _nobody_runs(wreck, shell, operator, scene)
        wreck.settle()
        first = read_rescues(shell.state / "rescue")
        unrecovered = {name for name in scene.offline if name not in operator.elected}
        lost = _lost(wreck, _required(scene, ()), first)
        earlier += missing_findings(lost, unrecovered)
        # What a group cannot have read has later timestamps than its commit.
        wreck.time_ms = int(time.time() * 1000)
        wreck.happen(incident.again)
        if incident.elsewhere:
            # That machine remembers no address: its operator names one that answers.
            shell.machine += 1
            shell.bootstrap = (bootstrap_of(wreck), *shell.bootstrap[1:])
        scene, operator.curable = _scene(wreck), incident.curable
    if scene.offline:
        operator.recover()
    seconds, commands = time.monotonic() - began - operator.looking, shell.commands
    readable = _required(scene, operator.started)
    left = Outcome(
        wreck.incident.way,
        offline=len(scene.offline),
        left=len(scene.offline),
        elected=len(operator.elected),
        held=_count(readable),
        seconds=round(seconds, 1),
        commands=commands,
        phrases=shell.phrases,
        resumed=operator.resumed,
    )
    if not wreck.awake:
        ended = _nobody_runs(wreck, shell, operator, scene)
        return replace(left, findings=(*earlier, *ended.findings))
    wreck.settle()
    saved = read_rescues(shell.state / "rescue")
    kept = {name: {*first.get(name, ()), *saved.get(name, ())} for name in {*first, *saved}}
    lost = _lost(wreck, readable, kept)
    returned = _returned(wreck, scene, operator)
    findings = [
        *earlier,
        *missing_findings(_preventable(wreck, operator, lost, returned), returned),
        *_said(wreck, operator, shell),
        *_changed(wreck, scene),
        *_unfinished(operator, shell),
        *_left_behind(wreck, shell),
        *_hung(shell),
    ]
    spent, put = 0.0, 0
    if put_back and saved and not findings:
        began = time.monotonic()
        put, wrong = _put_back(wreck, operator, scene, saved)
        findings += wrong
        spent = time.monotonic() - began
    lost_by_elections, cut = _split(lost, returned)
    return replace(
        left,
        left=len(wreck.offline() & scene.offline),
        lost=lost_by_elections,
        cut=cut,
        rescued=sum(map(len, saved.values())),
        put_back=put,
        put_back_seconds=round(spent, 1),
        phrases=shell.phrases,
        resumed=operator.resumed,
        findings=tuple(findings),
    )


def _nobody_runs(wreck: Wreck, shell: Shell, operator: Operator, scene: _Scene) -> Outcome:
    """The last that ran was to be stopped, and none can be started: none has cut anything."""
    return Outcome(
        wreck.incident.way,
        offline=len(scene.offline),
        left=len(scene.offline),
        elected=len(operator.elected),
        commands=shell.commands,
        findings=(*_said(wreck, operator, shell), *_hung(shell)),
    )


def _returned(wreck: Wreck, scene: _Scene, operator: Operator) -> frozenset[Name]:
    """Partitions that no command of ours elected, and that have a replica which came back.

    It need not lead any more: the controller prefers the first of the assignment after a while.
    """
    back = {*operator.started, wreck.incident.returning}
    orders = scene.state.orders
    return frozenset(
        name for name in scene.offline - operator.elected if back & {*orders.get(name, ())}
    )


def _preventable(
    wreck: Wreck,
    operator: Operator,
    lost: Mapping[Name, list[HeldRecord]],
    returned: Collection[Name],
) -> dict[Name, list[HeldRecord]]:
    """Without what a broker cut that came back unasked: no command can prevent that."""
    unasked = wreck.incident.returning
    if unasked is None or unasked in operator.started:
        return dict(lost)
    return {name: records for name, records in lost.items() if name not in returned}


def _split(
    lost: Mapping[Name, Collection[HeldRecord]], returned: Collection[Name]
) -> tuple[int, int]:
    """How many records elections lost, and how many were cut where nobody elected."""
    cut = sum(len(records) for name, records in lost.items() if name in returned)
    return sum(map(len, lost.values())) - cut, cut


def _required(scene: _Scene, started: Collection[int]) -> dict[Name, dict[int, FolderLog]]:
    """What must not be lost: readable replicas, and those of brokers that were started.

    Of brokers that were started also what they have of partitions that others lead.
    """
    found = {}
    for name, logs in scene.disks.logs.items():
        started_logs = {broker: log for broker, log in logs.items() if broker in started}
        read = scene.disks.readable_logs(name) if name in scene.offline else {}
        if read or started_logs:
            found[name] = {**read, **started_logs}
    return found


def _count(readable: Mapping[Name, Mapping[int, FolderLog]]) -> int:
    return sum(
        len({(record.epoch, record.offset) for log in logs.values() for record in log.records})
        for logs in readable.values()
    )


def _lost(
    wreck: Wreck,
    readable: Mapping[Name, Mapping[int, FolderLog]],
    saved: Mapping[Name, Collection[SavedRecord]],
) -> dict[Name, list[HeldRecord]]:
    leaders = {name: state.leader for name, state in wreck.partitions().items()}
    return dict(check_missing(readable, wreck.read(), leaders, saved, _compacted(wreck.incident)))


def _compacted(incident: LabIncident) -> frozenset[str]:
    return frozenset({topic.name for topic in incident.topics if topic.compacted} | INTERNAL)


def _said(wreck: Wreck, operator: Operator, shell: Shell) -> Iterator[JudgeFinding]:
    for found in operator.rounds:
        ever = {
            partition.name: wreck.book.ever_ended_at(partition.name) for partition in found.said
        }
        compacted = _compacted(wreck.incident)
        yield from check_said(found.said, found.disks, ever, compacted, found.gone)
        yield from check_sentences(found.text, found.facts)
    for ran in shell.ran:
        yield from check_rescued(ran.err, _records_at)


def _records_at(address: str) -> int:
    """How many records a rescue has at ``.../TOPIC/PARTITION``."""
    place = Path(address)
    saved = read_rescues(place.parent).items()
    return sum(len(records) for (_, number), records in saved if str(number) == place.name)


def _changed(wreck: Wreck, scene: _Scene) -> list[JudgeFinding]:
    """Settings and orders that are not as they were; an order is put back a moment later."""
    exempt = {f"{topic}-{number}:" for topic, number in wreck.reassigned}
    found: list[str] = []

    def as_it_was() -> bool:
        told = changes(scene.state, read_cluster(wreck.cluster.lab_bootstrap))
        found[:] = [text for text in told if text.split(" ")[0] not in exempt]
        return not found

    try:
        wreck.cluster.wait_until(as_it_was, "the orders to be put back", timeout=HANG_SECONDS)
    except LabError:
        return [JudgeFinding("changed", None, text) for text in found]
    return []


def _unfinished(operator: Operator, shell: Shell) -> Iterator[JudgeFinding]:
    """A killed command that was resumed leaves nothing to be resumed."""
    if operator.resumed:
        again = shell.breakglass("recover", "resume", "--json")
        if again.document.get("journal") and not again.document.get("succeeded"):
            yield JudgeFinding(
                "unfinished", None, f"resume has more to do: {again.err.strip()[-300:]}"
            )


def _left_behind(wreck: Wreck, shell: Shell) -> Iterator[JudgeFinding]:
    """Groups and transactions that the recovery left as they are not to be, and did not name."""
    if wreck.incident.seed <= FIRST_ROUND:
        return
    disks = wreck.read()
    logs = {
        name: disks.held(name).get(state.leader, NO_LOG)
        for name, state in wreck.partitions().items()
        if state.leader is not None and name[0] not in INTERNAL
    }
    listed = shell.breakglass("after", "transactions", "list", "--json")
    if listed.document:
        yield from check_open(logs, listed.document)
    if wreck.book.commits:
        told = shell.breakglass("after", "groups", "list", "--json")
        if any(topic == OFFSETS_TOPIC for topic, _ in wreck.offline()):
            # Nobody can ask its coordinator what the group has committed, nor may the product.
            if told.code == 0 or not told.document.get("offline"):
                text = f"groups of offline coordinators are not named: {told.err.strip()[-200:]}"
                yield JudgeFinding("groups", None, text)
            return
        committed = wreck.book.committed(GROUP)
        unread = {name: _unread_at(wreck.book, name, offset) for name, offset in committed.items()}
        if told.document:
            yield from check_groups(GROUP, committed, unread, logs, told.document, told.err)


def _unread_at(book: Book, name: Name, offset: int) -> frozenset[str]:
    """Digests of what was written after the group had committed *offset*."""
    known = book.commits.get(name, {}).get(offset, len(book.acked))
    return frozenset(
        digest(record.key, record.value)
        for record in book.acked[known:]
        if (record.topic, record.partition) == name
    )


def _hung(shell: Shell) -> Iterator[JudgeFinding]:
    for command in shell.ran:
        if command.code == HUNG:
            text = f"{' '.join(command.words[:3])} did not end within {command.seconds:.0f} s"
            yield JudgeFinding("hung", None, text)


def _put_back(
    wreck: Wreck, operator: Operator, scene: _Scene, saved: Mapping[Name, Collection[SavedRecord]]
) -> tuple[int, list[JudgeFinding]]:
    compacted = _compacted(wreck.incident)
    wanted = {
        name: _decided(scene, name, records)
        for name, records in saved.items()
        if name in operator.elected | operator.saved and name[0] not in compacted
    }
    if not any(wanted.values()):
        return 0, []
    writable = _writable(wreck)
    wanted = {name: records for name, records in wanted.items() if name in writable}
    before = {name: _elected_log(wreck, name) for name in wanted}
    epochs = {name: state.leader_epoch for name, state in wreck.partitions().items()}
    ran = operator.put_back(wanted.keys())
    wreck.settle()
    findings = [
        JudgeFinding("put back", None, f"exit {command.code}: {command.err.strip()[-400:]}")
        for command in ran
        if command.code
    ]
    findings += _changed(wreck, scene)
    for name, records in wanted.items():
        findings += check_put_back(name, before[name], _elected_log(wreck, name), records)
    if findings:
        _require_leaders(wreck, {name: epochs[name] for name in wanted})
    return sum(map(len, wanted.values())), findings


def _writable(wreck: Wreck) -> set[Name]:
    """Partitions that have a leader, and as many replicas in sync as a write needs."""
    least = {topic.name: topic.min_isr for topic in wreck.incident.topics}
    return {
        name
        for name, state in wreck.partitions().items()
        if not state.offline and len(state.isr) >= least.get(name[0], 1)
    }


def _require_leaders(wreck: Wreck, epochs: Mapping[Name, int]) -> None:
    """See that partitions kept their leaders, of *epochs*, while nothing happened to the lab.

    A leader epoch is raised once when another replica leads, and twice when nobody did in between.

    Raises:
        LabError: one had no leader for a while, so this says nothing of what was put back.
    """
    states = wreck.partitions()
    lost = [
        name
        for name, epoch in epochs.items()
        if states[name].offline or states[name].leader_epoch >= epoch + 2
    ]
    if lost:
        topic, number = lost[0]
        raise LabError(
            f"{topic}-{number} lost its leader, whose broker runs: this machine is too busy"
        )


def _decided(scene: _Scene, name: Name, records: Collection[SavedRecord]) -> list[SavedRecord]:
    """Saved records that are not of a transaction which was aborted or has no end."""
    undecided = {
        (record.offset, record.digest)
        for log in scene.disks.held(name).values()
        for record in log.records
        if record.offset in log.undecided
    }
    return [record for record in records if (record.offset, record.digest) not in undecided]


def _elected_log(wreck: Wreck, name: Name) -> FolderLog:
    leader = wreck.partitions()[name].leader
    return NO_LOG if leader is None else wreck.read().held(name).get(leader, NO_LOG)
