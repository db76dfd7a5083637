"""A journalled incident with its rescue on disk, for ledgers: also for the screen that shows them.

ledger-3 forks at 100: b1 leads with 125 records, b2's 50 are cut off and rescued. orders-0 loses
nothing. events-7 is still without a leader. b3 could not be read.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

from breakglass.services.guard.journal import Journal, StepName
from breakglass.services.model import PartitionEvidence, TopicPartition
from breakglass.services.record_batches import Record, TimestampType
from breakglass.services.recovery.acts.elect import Elect, frozen_elections
from breakglass.services.recovery.execution.steps import ELECT, RESCUE, described
from breakglass.services.recovery.guarded.subject import ElectionSubject, frozen
from breakglass.services.recovery.ledger.assemble import LedgerSources, ledger_of
from breakglass.services.recovery.ledger.copies import FoundCopies
from breakglass.services.recovery.ledger.entries import CopiedSpan, IncidentLedger
from breakglass.services.recovery.rescue.rescue import SAVED
from breakglass.services.recovery.timeline.account import account_of
from breakglass.services.recovery.triage import Left
from breakglass.services.topic_backup.manifest import TopicIdentity
from breakglass.services.topic_backup.summary import GapReason
from breakglass.services.topic_backup.topic_writer import TopicWriter
from tests.unit.recovery.replicas import TOPIC_ID, log, offline, silent
from tests.unit.recovery.timeline import journals

CLUSTER = "prod-eu-1"
DIGEST = "9f3c" + 60 * "0"
LEDGER, ORDERS = TopicPartition("ledger", 3), TopicPartition("orders", 0)
EVENTS, CARTS = TopicPartition("events", 7), TopicPartition("carts", 1)
FORKED = offline(
    log(1, (0, 100), (2, 125), hw=100),
    log(2, (0, 100), (1, 150), hw=100),
    silent(3),
    topic="ledger",
    number=3,
    floor=170,
)
SAFE = offline(log(1, (0, 40)), log(2, (0, 40)), topic="orders", number=0)
STILL_OFFLINE = offline(log(1, (0, 9)), log(2, (0, 12)), topic="events", number=7)
HOSTILE = "<script>alert(1)</script>\x1b[2J[red]x[/]\u202e"


def rescued(root: Path, start: int = 100, end: int = 150, topic: str = "ledger") -> Path:
    """The folder of a rescue with b2's records, in the place of one partition."""
    broker = root / f"cluster-{CLUSTER}" / "20231114T221320.000000Z" / "b2"
    with TopicWriter(broker, TopicIdentity(topic, CLUSTER, TOPIC_ID)) as writer:
        partition = writer.partition(3)
        partition.skip_to(start, GapReason.NOT_TAKEN)
        for offset in range(start, end):
            partition.append(Record(offset, TimestampType.CREATE, 1, b"k", b"v"), 1)
        writer.commit()
    return broker / topic / "3"


def begun(
    folder: Path, *evidence: PartitionEvidence, left: tuple[Left, ...] = (), designee: int = 1
) -> Journal:
    """A journal with the plan and the consents, as an election writes them."""
    wanted = tuple(frozen(one, designee, (3,)) for one in evidence)
    subject = ElectionSubject(
        CLUSTER, wanted, left=left, digest=DIGEST, approved_by=("grace", "alan")
    )
    journal = Journal.open(CLUSTER, folder)
    phrases = [group.phrase for group in subject.groups]
    Elect(lambda _: subject).announce(journal, frozen_elections(subject), phrases, implied=False)
    return journal


def elect(journal: Journal, *evidence: PartitionEvidence, **result: Any) -> None:
    """The election of b1 for each of *evidence*; elected if no other *result* is given."""
    became = {"result": "elected", "leader": 1, "leader_epoch": 10, "rung": "redundant", **result}
    items = {one.partition: described(frozen(one, 1).target) for one in evidence}
    journal.outcome(journal.request(ELECT, items), dict.fromkeys(items, became))


def rescue(journal: Journal, path: Path | None, *, result: str = SAVED, records: int = 50) -> None:
    """The rescue of b2's records of ledger-3, saved at *path*."""
    wanted = [{"broker": 2, "start": 100, "end": 150}]
    target = described(frozen(FORKED, 1).target)
    request = journal.request(RESCUE, {LEDGER: {**target, "rescue": wanted}}, to="rescues")
    place = {"broker": 2, "records": records, "bytes": 4_096, "path": path}
    told = {"result": result, "reason": "" if result == SAVED else "b2 hung", "saved": [place]}
    journal.outcome(request, {LEDGER: told})


def incident(folder: Path, root: Path | None = None) -> Path:
    """The journal of the whole incident; its rescue is below *root*, or *folder*."""
    path = rescued((root or folder) / "rescue")
    with begun(
        folder, FORKED, SAFE, STILL_OFFLINE, left=(Left(CARTS, "STUCK reassignment"),)
    ) as journal:
        rescue(journal, path)
        elect(journal, FORKED, SAFE)
        elect(journal, STILL_OFFLINE, result="failed", leader=None, reason="no quorum")
        journal.finish("partly failed")
    return journal.path


def put_back(folder: Path, source: Path, result: str = "restored", **item: Any) -> Path:
    """A journal of a restore of b2's rescued records, by default the first ten of them."""
    item = {"start": 100, "end": 110, "records": 10, "spans": [[100, 110]], **item}
    with Journal.open(CLUSTER, folder) as journal:
        journal.consent("restore 10 records into ledger")
        given = {name: value for name, value in item.items() if value is not None}
        request = journal.request(StepName.RESTORE_RECORDS, {LEDGER: given}, source=source)
        journal.outcome(request, {LEDGER: {"result": result, "end": 135}})
        journal.finish("succeeded")
    return journal.path


def shown_ledger(folder: Path) -> IncidentLedger:
    """The ledger of the incident with fixed times and places, for pictures of it."""
    path = incident(folder)
    journals.timed(path)
    copies = (CopiedSpan(2, 100, 150, "/state/rescue/b2/ledger/3"),)
    sources = LedgerSources(account_of(path), copies={LEDGER: FoundCopies(copies)})
    return replace(
        ledger_of(sources),
        journal=Path("/state/journal/20231114T221320.000000Z.jsonl"),
        made_at_ms=journals.BEGIN_MS + 60_000,
    )
