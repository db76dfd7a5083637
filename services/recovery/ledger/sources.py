"""What the ledger of an incident is made from: journals, rescues, and the logs of leaders now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

from breakglass.services.errors import BreakglassError, UsageError
from breakglass.services.guard.journal import UnreadableJournal, list_journals
from breakglass.services.guard.journal_view import Details, JournalView
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.ledger.beside import CopyBeside, copies_beside
from breakglass.services.recovery.ledger.claims import rescues_in
from breakglass.services.recovery.ledger.copies import FoundCopies, RescueFolders
from breakglass.services.recovery.ledger.holdings import Holdings
from breakglass.services.recovery.ledger.present import LeaderNow, leaders_now
from breakglass.services.recovery.timeline.account import Account
from breakglass.services.recovery.timeline.ending import PartitionEnding


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
    """*sources* with the logs of the present leaders, or a note why they could not be asked.

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
