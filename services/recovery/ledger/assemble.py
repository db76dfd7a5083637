"""Makes the ledger of an incident from its journal, later journals, rescues and the cluster."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

from breakglass.services.clock import now_ms
from breakglass.services.errors import BreakglassError, UsageError
from breakglass.services.guard.journal import (
    UNKNOWN,
    Details,
    JournalView,
    UnreadableJournal,
    list_journals,
)
from breakglass.services.kafka.cluster.describe_cluster import require_same_cluster
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.replicas.list_offsets import ask_brokers, by_leader
from breakglass.services.kafka.replicas.replica_reader import ReplicaReading
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import (
    EpochHistory,
    PartitionState,
    ReplicaLog,
    TopicPartition,
    Unknown,
)
from breakglass.services.recovery.evidence.few_logs import log_of_leader
from breakglass.services.recovery.execution.target import RecoveryResult
from breakglass.services.recovery.ledger.copies import (
    CopyBeside,
    FoundCopies,
    PutBackClaim,
    RescueClaim,
    RescueFolders,
    approvals_in,
    consents_in,
    copies_beside,
    doubtful_put_back,
    folder_of,
    holdings_in,
    left_out_in,
    not_sent_in,
    of_unread,
    put_backs_in,
    rescues_in,
)
from breakglass.services.recovery.ledger.entries import (
    CopiedSpan,
    Fate,
    FateSum,
    IncidentLedger,
    PartitionCase,
    PartitionLedger,
    SettledLogs,
)
from breakglass.services.recovery.ledger.holdings import NOT_WRITTEN, Holdings
from breakglass.services.recovery.ledger.settle import settled
from breakglass.services.recovery.timeline.account import Account, moments_of
from breakglass.services.recovery.timeline.ending import NOTHING_SENT, PartitionEnding, stake_of

DEPTH = 64
"""Leader epochs that are asked for, from the newest back."""
DELETED = Unknown("the topic was deleted since, or created again")
OFFLINE = Unknown("it has no leader now")


@dataclass(frozen=True, slots=True)
class LeaderNow:
    """The current leader of a partition, and that leader's log."""

    leader: int | None
    log: ReplicaLog | Unknown


def leaders_now(
    client: ReadClient,
    cluster_id: str,
    topic_ids: Mapping[TopicPartition, UUID | None],
    deadline: Deadline,
) -> dict[TopicPartition, LeaderNow]:
    """The leaders of these partitions and their logs; a leader that does not answer is Unknown.

    Raises:
        WrongCluster: the addresses lead to another cluster.
        Unreachable: no broker serves the cluster's metadata.
    """
    require_same_cluster(cluster_id, client.describe(deadline).cluster_id)
    topics = sorted({partition.topic for partition in topic_ids})
    there = {
        partition.partition: partition
        for partition in client.partitions(topics, deadline, set(topic_ids))
    }
    states = {
        partition: there[partition]
        for partition, topic_id in topic_ids.items()
        if partition in there and topic_id in (None, there[partition].topic_id)
    }

    def ask(
        broker: int, asked: Collection[TopicPartition]
    ) -> dict[TopicPartition, ReplicaLog | Unknown]:
        reader = client.replicas_on(broker)
        found = reader.read(
            {partition: states[partition].topic_id for partition in asked}, deadline
        )
        reader.deepen(asked, DEPTH, deadline)
        return {
            partition: _log(broker, found[partition], reader.history(partition))
            for partition in asked
        }

    logs = ask_brokers(by_leader(states.values()), ask)
    return {id_: _now(states.get(id_), logs.get(id_, OFFLINE)) for id_ in topic_ids}


def _now(state: PartitionState | None, log: ReplicaLog | Unknown) -> LeaderNow:
    return LeaderNow(None, DELETED) if state is None else LeaderNow(state.leader, log)


def _log(
    broker: int, reading: ReplicaReading, epochs: EpochHistory | Unknown
) -> ReplicaLog | Unknown:
    """The log, if enough of it is known to compare it."""
    for needed in (reading.log_end, reading.log_start, epochs):
        if isinstance(needed, Unknown):
            return needed
    return replace(log_of_leader(broker, reading), epochs=epochs)


@dataclass(frozen=True)
class LedgerSources:
    """What a ledger is made from."""

    account: Account
    """The journal of the incident."""
    others: Sequence[JournalView] = ()
    """Journals that may say that rescued records were put back."""
    planned: Mapping[TopicPartition, Holdings] = field(default_factory=dict)
    """The replicas' logs by the plan's file, for journals that do not record them."""
    copies: Mapping[TopicPartition, FoundCopies] = field(default_factory=dict)
    """The rescued copies that were found; a partition that is missing was not rescued."""
    beside: Mapping[TopicPartition, tuple[CopyBeside, ...]] = field(default_factory=dict)
    """Copies in folders that were named, of rescues that the journal does not have."""
    now: Mapping[TopicPartition, LeaderNow] | None = None
    """None: the cluster was not asked."""
    notes: tuple[str, ...] = ()

    @property
    def endings(self) -> tuple[PartitionEnding, ...]:
        """The partitions of the journal's plan; without a plan there is no incident.

        Raises:
            UsageError: the journal is not of a recovery.
        """
        view = self.account.view
        if view.plan is None:
            raise UsageError(
                f"{view.path} is not the journal of a recovery: `breakglass journal list` says "
                "which are"
            )
        planned = view.plan.items
        return tuple(ending for ending in self.account.endings if ending.partition in planned)

    def noting(self, note: str) -> LedgerSources:
        """These sources with one more *note*."""
        return replace(self, notes=(*self.notes, note))


def gathered(
    account: Account,
    folder: Path | None = None,
    put_back: Iterable[JournalView] = (),
    planned: Mapping[TopicPartition, Holdings] | None = None,
    rescued: Sequence[Path] = (),
) -> LedgerSources:
    """The sources on this machine: later journals of that cluster, and folders of rescues.

    Journals of *put_back* are read in addition to those of the state *folder*, and the folders
    *rescued* in addition to those that the journal names. The notes name what cannot be read.
    """
    view = account.view
    # The beginning of the name of a journal that was begun in the second of at_ms.
    found = list_journals(
        view.cluster_id,
        folder,
        since=f"{datetime.fromtimestamp(view.opened_at_ms // 1000, UTC):%Y%m%dT%H%M%S}",
    )
    readable = [view for view in found if isinstance(view, JournalView)]
    known = {view.path for view in readable}
    others = [*readable, *(view for view in put_back if view.path not in known)]
    folders = RescueFolders()
    items = {} if view.plan is None else view.plan.items
    ids = {partition: _topic_id(item) for partition, item in items.items()}
    beside = copies_beside(rescued, view.cluster_id, ids)
    return LedgerSources(
        account,
        sorted(others, key=lambda other: other.opened_at_ms),
        planned or {},
        {partition: folders.find(claims) for partition, claims in rescues_in(view).items()},
        beside.copies,
        notes=(
            *(
                f"passed over: {view.reason}"
                for view in found
                if isinstance(view, UnreadableJournal)
            ),
            *beside.notes,
        ),
    )


def with_cluster(sources: LedgerSources, client: ReadClient, seconds: float) -> LedgerSources:
    """*sources* with the logs of the current leaders, or a note why they could not be asked.

    Raises:
        WrongCluster: the addresses belong to another cluster.
    """
    view = sources.account.view
    planned = {} if view.plan is None else view.plan.items
    wanted = {
        ending.partition: _topic_id(planned.get(ending.partition, {})) for ending in sources.endings
    }
    try:
        now = leaders_now(client, view.cluster_id, wanted, Deadline.after(seconds))
    except UsageError:
        raise
    except BreakglassError as error:
        return sources.noting(f"the cluster was not asked: {error}")
    return replace(sources, now=now)


def _topic_id(item: Details) -> UUID | None:
    try:
        return UUID(str(item["topic_id"]))
    except (KeyError, ValueError):
        return None


_LED = frozenset(
    {
        str(RecoveryResult.ELECTED),
        str(RecoveryResult.ALREADY_ONLINE),
        str(RecoveryResult.ELECTED_ANOTHER),
    }
)


def ledger_of(sources: LedgerSources) -> IncidentLedger:
    """The ledger; pure.

    Raises:
        UsageError: the journal is not of a recovery.
    """
    view, brief = sources.account.view, sources.account.brief
    endings = sources.endings
    held, rescues, noted = holdings_in(view), rescues_in(view), not_sent_in(view)
    folders = {
        folder_of(claim.path.parent)
        for claims in rescues.values()
        for claim in claims
        if claim.path is not None
    }
    folders |= {folder_of(copy.folder) for copies in sources.beside.values() for copy in copies}
    put_backs: dict[TopicPartition, list[PutBackClaim]] = {}
    for claim in put_backs_in(sources.others):
        if claim.folder in folders:
            put_backs.setdefault(claim.partition, []).append(claim)
    lines = [
        _PartitionLine(
            _as_noted(ending, noted.get(ending.partition, {})),
            _holdings(ending.partition, held, sources.planned),
            rescues.get(ending.partition, ()),
            put_backs.get(ending.partition, ()),
            sources.copies.get(ending.partition, FoundCopies()),
            sources.beside.get(ending.partition, ()),
            None if sources.now is None else sources.now.get(ending.partition),
            view.plan.items[ending.partition] if view.plan is not None else {},
        ).settled()
        for ending in endings
    ]
    return IncidentLedger(
        cluster_id=view.cluster_id,
        journal=view.path,
        what=brief.what,
        result=brief.result,
        people=tuple(dict.fromkeys((brief.who, *brief.resumed_by))),
        opened_at_ms=brief.opened_at_ms,
        last_at_ms=brief.last_at_ms,
        made_at_ms=now_ms(),
        consents=consents_in(view),
        digest=brief.digest,
        approved_by=approvals_in(view),
        partitions=tuple(lines),
        left_out=left_out_in(view),
        put_back_by=tuple(
            dict.fromkeys(claim.journal for claims in put_backs.values() for claim in claims)
        ),
        notes=(
            *sources.notes,
            *_unread_copies(sources, lines),
            *_uncounted_put_backs(put_backs, lines),
        ),
        asked_cluster=sources.now is not None,
        moments=tuple((moment.at_ms, moment.says) for moment in moments_of(view)),
    )


def _unread_copies(sources: LedgerSources, lines: Iterable[PartitionLedger]) -> Iterable[str]:
    for line in lines:
        yield from of_unread(sources.beside.get(line.partition, ()), line.unread)


def _uncounted_put_backs(
    put_backs: Mapping[TopicPartition, Sequence[PutBackClaim]], lines: Iterable[PartitionLedger]
) -> Iterable[str]:
    """Sentences about restores whose records are not in the sum of what was put back."""
    for line in lines:
        for claim in put_backs.get(line.partition, ()):
            named = f"{line.partition}: the restore of journal {claim.journal.stem}"
            spans = () if isinstance(claim.spans, Unknown) else claim.spans
            records = sum(end - start for start, end in spans)
            if not claim.proved or isinstance(claim.spans, Unknown):
                yield f"{named} ({claim.result}) is in no sum: what it put back is not proved"
            elif claim.broker in line.unread and records:
                yield (
                    f"{named} put {records:,} record{'s' * (records != 1)} of b{claim.broker} "
                    "back, whose log was unread and is in no sum"
                )


def _holdings(
    partition: TopicPartition,
    held: Mapping[TopicPartition, Holdings | Unknown],
    planned: Mapping[TopicPartition, Holdings],
) -> Holdings | Unknown:
    """The replicas' logs by the journal, or by the plan's file if the journal lacks them."""
    found = held.get(partition, NOT_WRITTEN)
    return planned.get(partition, found) if isinstance(found, Unknown) else found


def _as_noted(ending: PartitionEnding, noted: Details) -> PartitionEnding:
    """*ending*, with the result of a note if nothing was sent, or if another client elected."""
    elsewhere = ending.result not in (*_LED, UNKNOWN) and noted.get("result") in _LED
    if not noted or not (elsewhere or ending.result == NOTHING_SENT):
        return ending
    leader = noted.get("leader")
    return replace(
        ending,
        result=str(noted.get("result", ending.result)),
        reason=str(noted.get("reason") or ending.reason),
        leader=leader if isinstance(leader, int) else None,
    )


@dataclass(frozen=True)
class _PartitionLine:
    """All that is known about one partition, from which it is settled."""

    ending: PartitionEnding
    holdings: Holdings | Unknown
    rescues: Sequence[RescueClaim]
    put_backs: Sequence[PutBackClaim]
    copies: FoundCopies
    beside: Sequence[CopyBeside]
    now: LeaderNow | None
    planned: Details

    def settled(self) -> PartitionLedger:
        holdings = self.holdings
        if isinstance(holdings, Unknown):
            return self._without_holdings(holdings)
        found = settled(self._case(holdings))
        unread = [replica.broker for replica in found.replicas if isinstance(replica.end, Unknown)]
        return PartitionLedger(
            partition=self.ending.partition,
            result=self.ending.result,
            leader=self._leader,
            replicas=found.replicas,
            sums=found.sums,
            held=found.held,
            uncounted=(*found.uncounted, *_without_start(found)),
            differences=(*found.differences, *self.copies.differences, *self._price(found)),
            reason=self.ending.reason,
            agreed=self.ending.price,
            approximate=holdings.approximate,
            unread=tuple(unread),
            unread_at_least=self._bound(),
            unread_source=self.ending.unread_source,
            confirmed=self._confirmed(found),
            not_yet_readable=found.not_yet_readable,
        )

    def _without_holdings(self, why: Unknown) -> PartitionLedger:
        """The partition by an older journal, which only says what was rescued and put back."""
        back = sum(span.end - span.start for span in self._back())
        saved = sum(span.end - span.start for span in self.copies.rescued)
        sums = {
            fate: FateSum(unproven=records)
            for fate, records in ((Fate.PUT_BACK, back), (Fate.RESCUED, saved - back))
            if records > 0
        }
        return PartitionLedger(
            partition=self.ending.partition,
            result=self.ending.result,
            leader=self._leader,
            replicas=(),
            sums=sums,
            held=why,
            uncounted=(why.reason,),
            differences=self.copies.differences,
            reason=self.ending.reason,
            agreed=self.ending.price,
            unread=self.ending.abandons,
            unread_at_least=self._bound(),
            unread_source=self.ending.unread_source,
        )

    def _case(self, holdings: Holdings) -> PartitionCase:
        doubtful = [
            span
            for claim in self.put_backs
            if not claim.proved or isinstance(claim.spans, Unknown)
            for span in doubtful_put_back(claim, self._wanted(claim.broker))
        ]
        failed = [claim.reason for claim in self.rescues if not claim.whole]
        unsaved = f"its rescue failed: {failed[-1]}" if failed else "it was not rescued"
        return PartitionCase(
            holdings=holdings,
            leader=self._leader,
            elected=self._elected(),
            unsaved=unsaved,
            rescued=(
                *self.copies.rescued,
                *(span for copy in self.beside for span in copy.spans(holdings)),
            ),
            put_back=(*self._back(), *self._back_from_beside(holdings)),
            doubtful=(*doubtful, *self.copies.doubtful),
            now=None if self.now is None else self.now.log,
        )

    @property
    def _leader(self) -> int | None:
        """The leader by the journal; if the journal elected none, the current leader."""
        if self.ending.result in _LED:
            return self.ending.leader
        return None if self.now is None else self.now.leader

    def _elected(self) -> bool | Unknown:
        if self.ending.result == UNKNOWN:
            return Unknown(self.ending.reason or "whether anybody was elected is not known")
        return self.ending.result in _LED

    def _back(self) -> tuple[CopiedSpan, ...]:
        """The spans that restores provably put back."""
        return tuple(
            CopiedSpan(claim.broker, start, end, claim.journal.stem)
            for claim in self.put_backs
            if claim.proved and not isinstance(claim.spans, Unknown)
            if not any(copy.is_source_of(claim) for copy in self.beside)
            for start, end in claim.spans
        )

    def _back_from_beside(self, holdings: Holdings) -> Iterable[CopiedSpan]:
        """The spans that restores provably put back from rescues that the journal does not have."""
        for claim in self.put_backs:
            for copy in self.beside:
                if copy.is_source_of(claim):
                    yield from copy.put_back(claim, holdings)

    def _wanted(self, broker: int) -> tuple[tuple[int, int], ...]:
        return tuple(
            span for claim in self.rescues if claim.broker == broker for span in claim.wanted
        )

    def _bound(self) -> int | Unknown:
        bound = self.ending.unread_at_least
        return Unknown("nothing was known of unread logs") if bound is None else bound

    def _confirmed(self, found: SettledLogs) -> bool | Unknown | None:
        if self.now is None:
            return None
        if isinstance(self.now.log, Unknown):
            return self.now.log
        return Unknown(found.unconfirmed) if found.unconfirmed else not found.gone

    def _price(self, found: SettledLogs) -> tuple[str, ...]:
        """Where the records that the election cut off differ from the agreed loss."""
        agreed = stake_of([self.ending.price])
        own = self.ending.result == RecoveryResult.ELECTED
        if not own or not agreed.said or agreed.unknown or found.cut_off is None:
            return ()
        if self.planned.get("designee") != self.ending.leader or agreed.records == found.cut_off:
            return ()
        return (
            f"it was agreed to lose {self.ending.price} records, and {found.cut_off:,} of those "
            "that replicas held are not in the elected log",
        )


def _without_start(found: SettledLogs) -> Iterable[str]:
    """Replicas whose log end is known and log start is not: their records cannot be counted."""
    for replica in found.replicas:
        if isinstance(replica.start, Unknown) and isinstance(replica.end, int):
            yield f"b{replica.broker}: {replica.start.reason}"
