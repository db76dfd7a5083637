"""The act of ending hanging transactions, by their lost marker or by an abort (R18)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, ClassVar

from breakglass.services import patience
from breakglass.services.errors import BreakglassError, TimedOut
from breakglass.services.guard.act import (
    PARTLY_FAILED,
    SUCCEEDED,
    Act,
    Ending,
    Front,
    Frozen,
    Means,
    TargetOutcome,
    TargetResult,
    result_of,
)
from breakglass.services.guard.consent import ConsentPhrase
from breakglass.services.kafka.replicas.list_offsets import (
    LATEST,
    LEADER_ONLY,
    READ_COMMITTED,
    OffsetError,
    list_offsets,
)
from breakglass.services.kafka.wire.deadline import Deadline, until
from breakglass.services.model import Unknown
from breakglass.services.recovery.transactions.finding import (
    TransactionEnding,
    TransactionSearch,
    TransactionsFound,
    still_open,
)
from breakglass.services.words.figures import count

if TYPE_CHECKING:
    from breakglass.services.guard.journal import Journal
    from breakglass.services.kafka.cluster.open_transactions import OpenTransaction
    from breakglass.services.kafka.marker_client import TransactionEndClient
    from breakglass.services.kafka.read_client import ReadClient

STEP = "end transaction"
NO_MARKER = (
    "no log that was named holds its marker, {known}; an abort hides its records from "
    "read_committed consumers for good"
)
UNDECIDED = "so whether it was committed is not known"
DECIDED = (
    "but its coordinator says {state}: it was {done}, unless its producer has begun a later one; "
    "name with --source a log that was not elected and may hold the marker"
)


@dataclass(frozen=True, slots=True)
class EndedTransaction:
    """The result of one transaction."""

    ending: TransactionEnding
    result: TargetResult
    text: str


@dataclass(frozen=True, slots=True)
class EndTransactions(Act[TransactionsFound]):
    """End the transactions that *search* finds: each by its marker, or by an abort if allowed."""

    doing: ClassVar[str] = "ending transactions"
    search: TransactionSearch = field(default_factory=TransactionSearch)

    def freeze(self, front: Front) -> Frozen[TransactionsFound]:
        with front.reading() as client:
            found = self.search.run(client)
        endings = found.to_end
        return Frozen(
            found.cluster_id,
            asked_for(endings),
            tuple((title(ending), fact(ending)) for ending in endings),
            tuple(sorted({str(ending.partition) for ending in endings})),
            remarks=tuple(remarks(found)),
            plan=found,
        )

    def carry_out(self, front: Front, means: Means, frozen: Frozen[TransactionsFound]) -> Ending:
        """Write each marker, one after the other; the value is a list of `EndedTransaction`."""
        done: list[EndedTransaction] = []
        with front.reading() as client, means.cluster.transaction_ends(frozen.cluster_id) as armed:
            client.describe(Deadline.after(patience.COMMAND))
            for ending in frozen.plan.to_end:
                if front.stop():
                    break
                ended = _end(armed, client, means.journal, ending)
                front.tell(TargetOutcome(title(ending), ended.result, ended.text))
                done.append(ended)
        stopped = len(done) < len(frozen.plan.to_end)
        whole = all(transaction.result is TargetResult.DONE for transaction in done) and not stopped
        return Ending(SUCCEEDED if whole else PARTLY_FAILED, value=done)


def asked_for(endings: Sequence[TransactionEnding]) -> tuple[ConsentPhrase, ...]:
    """The phrases: one for all transactions that end complete, one for each of the others."""
    alone = [ending for ending in endings if ending.missing or ending.proven is None]
    bulk = [ending for ending in endings if ending not in alone]
    phrases = [ConsentPhrase(f"{len(bulk):,} transactions end by their markers")]
    if len(bulk) < 2:
        phrases = [ConsentPhrase(phrase_of(ending)) for ending in bulk]
    return (
        *phrases,
        *(ConsentPhrase(phrase_of(ending), _why(ending), ending.partition) for ending in alone),
    )


def phrase_of(ending: TransactionEnding) -> str:
    """``billing-0 commit producer 4000``, with what it costs."""
    word = "abort" if ending.marker is None else ending.marker.word
    text = f"{ending.partition} {word} producer {ending.pending.producer_id}"
    if ending.missing:
        return f"{text} without {count(ending.missing)} records"
    if ending.proven is None:
        return f"{text} lose {count(ending.records)}"
    return text


def _why(ending: TransactionEnding) -> str:
    if ending.proven is None:
        state = ending.pending.coordinator_state
        done = {"CompleteCommit": "committed", "CompleteAbort": "aborted"}.get(str(state))
        known = UNDECIDED if done is None else DECIDED.format(state=state, done=done)
        return NO_MARKER.format(known=known)
    if isinstance(ending.missing, Unknown):
        return f"how many of its records are lost is not known: {ending.missing.reason}"
    return (
        f"{ending.missing:,} records of the transaction are not on the partition: consumers will "
        "read a part of what its producer committed as one"
    )


def title(ending: TransactionEnding) -> str:
    """The name of the transaction: its partition, producer and first offset."""
    pending = ending.pending
    return f"{ending.partition} producer {pending.producer_id} since {pending.start_offset:,}"


def fact(ending: TransactionEnding) -> str:
    """The marker to write, and its proof."""
    word = "left alone" if ending.marker is None else ending.marker.word
    return f"{word}: {ending.why}"


def remarks(found: TransactionsFound) -> list[str]:
    """What is left alone, and what could not be read."""
    left = [f"{title(ending)}  {fact(ending)}" for ending in found.endings if ending.marker is None]
    return [*left, *found.unknown]


def _end(
    armed: TransactionEndClient, client: ReadClient, journal: Journal, ending: TransactionEnding
) -> EndedTransaction:
    """End one transaction: read it again, journal, send, observe, and journal the result."""
    assert ending.marker is not None
    try:
        now = still_open(client, ending, Deadline.after(patience.COMMAND))
    except BreakglassError as error:
        return EndedTransaction(ending, TargetResult.FAILED, f"nothing was sent: {error}")
    if not unchanged(now, ending.pending):
        text = "nothing was sent: it is no longer open as it was agreed to"
        return EndedTransaction(ending, TargetResult.FAILED, text)
    assert ending.marker is not None
    item = {
        "producer_id": ending.marker.producer_id,
        "producer_epoch": ending.marker.producer_epoch,
        "coordinator_epoch": ending.marker.coordinator_epoch,
        "commit": ending.marker.commit,
        "start_offset": ending.pending.start_offset,
        "marker_found_in": ending.proven and ending.proven.source,
        "missing": ending.missing if isinstance(ending.missing, int) else None,
    }
    request = journal.request(STEP, {ending.partition: item}, doing=phrase_of(ending))
    try:
        error_text = armed.end(
            ending.leader, ending.partition, ending.marker, Deadline.after(patience.COMMAND)
        )
    except BreakglassError as error:
        ended = EndedTransaction(ending, result_of(error), str(error))
    else:
        ended = (
            EndedTransaction(ending, TargetResult.FAILED, error_text)
            if error_text
            else _observed(client, ending)
        )
    journal.outcome(
        request, {ending.partition: {"result": ended.result.value, "reason": ended.text}}
    )
    return ended


def unchanged(now: OpenTransaction | None, agreed: OpenTransaction) -> bool:
    """Whether it is open as *agreed*; the marker would end what its producer wrote since, too."""
    return now is not None and _WRITTEN(now) == _WRITTEN(agreed)


_WRITTEN = attrgetter("producer_epoch", "last_sequence", "last_timestamp_ms")


def _observed(client: ReadClient, ending: TransactionEnding) -> EndedTransaction:
    """Ask the leader whether the transaction is closed and its last stable offset has advanced."""
    assert ending.marker is not None
    deadline = Deadline.after(patience.COMMAND)

    def stable() -> int:
        if still_open(client, ending, deadline) is not None:
            raise TimedOut(f"{ending.partition} still has it open", "still open")
        told = list_offsets(
            client.sender,
            ending.leader,
            [ending.partition],
            LATEST,
            deadline,
            replica_id=LEADER_ONLY,
            isolation_level=READ_COMMITTED,
        )[ending.partition]
        if isinstance(told, OffsetError):
            raise TimedOut(told.reason, "no last stable offset")
        if ending.last_stable == ending.pending.start_offset == told.offset:
            raise TimedOut(f"the last stable offset is still {told.offset:,}", "not moved")
        return told.offset

    try:
        offset = until(deadline, stable)
    except BreakglassError as error:
        text = f"the marker was accepted, and its effect was not seen: {error}"
        return EndedTransaction(ending, TargetResult.UNKNOWN, text)
    before = "?" if isinstance(ending.last_stable, Unknown) else f"{ending.last_stable:,}"
    word = "committed" if ending.marker.commit else "aborted"
    return EndedTransaction(
        ending, TargetResult.DONE, f"{word}: last stable offset {before} -> {offset:,}"
    )
