"""Names and documents of a store are read as they were written; what retention lets go."""

from dataclasses import replace

import pytest

from breakglass.services.checkpoint.protocol.values import CopyId, Status
from breakglass.services.checkpoint.store.backup_store import Retention, expired
from breakglass.services.checkpoint.store.documents import (
    CutDocument,
    DeletedDocument,
    Document,
    FailureDocument,
    OngoingDocument,
    StartedDocument,
    StoredFile,
    TransactionFloors,
    VerifiedDocument,
    decode,
    encode,
)
from breakglass.services.checkpoint.store.files import parsed
from breakglass.services.checkpoint.store.stored import (
    StoredCheckpoint,
    StoredCopy,
    StoredPartition,
)
from breakglass.services.errors import MalformedInput
from tests.unit.checkpoint.store.stores import manifest, take

DOCUMENTS: tuple[Document, ...] = (
    take(5),
    StartedDocument(7, {1: 100, 2: 0}, {1: 3}),
    StartedDocument(
        7, {1: 100}, transactions=TransactionFloors({"t": {0: 5}}, {"g": {1: 3}}, {1: 9})
    ),
    CutDocument(7, {1: 100}, in_transit={1: (105,)}, epochs={1: 3}, in_transit_epochs={1: 4}),
    FailureDocument(7, "no space\x1b[2J \U0001f525", 100),
    VerifiedDocument(7, {1: 0, 2: 4}, 3, 70, {2: "a file is missing"}),
    DeletedDocument(7),
    OngoingDocument(7),
    OngoingDocument(7, 100, "1.0"),
    manifest(StoredFile("segments/0/records", 7, "a" * 64)),
)


@pytest.mark.parametrize(
    "name",
    [
        *("", "take.json", "1/take", "1/take.json/", "1/TAKE.json", "1/take-5.json"),
        *("1/verified.json", "1/verified-.json", "1/verified-05.json", "1/2/verified-5.json"),
        *("1/manifest.json", "1/2/take.json", "1/2/3/deleted.json", "1/2/3/4/failure.json"),
        *("01/take.json", "-1/take.json", "1/../take.json", "99999999999999999999/take.json"),
        *("1/take.json\n", "\u0661/take.json"),
    ],
)
def test_another_name_is_none(name: str) -> None:
    assert parsed(name) is None


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda one: type(one).__name__)
def test_a_document_is_read_as_it_was_written_or_not_at_all(document: Document) -> None:
    assert decode(type(document), encode(document), "here") == document
    content = encode(document).rstrip()
    for end in range(0, len(content), 7):
        with pytest.raises(MalformedInput):
            decode(type(document), content[:end], "here")


C, F, O, I = Status.COMPLETED, Status.FAILED, Status.ONGOING, Status.INCOMPLETE  # noqa: E741
NOW = 10_000


def of_status(id: int, status: Status, created_at_ms: int | None) -> StoredCheckpoint:
    """Of two partitions; only one of them has a copy where it is incomplete."""
    asked = None if created_at_ms is None else replace(take(id), created_at_ms=created_at_ms)
    done = manifest() if status is C else None
    copies: list[tuple[StoredCopy, ...]] = [
        (StoredCopy(CopyId(id, number, 0), OngoingDocument(1), done, None),) for number in (1, 2)
    ]
    if status is I:
        copies[1] = ()
    parts = [StoredPartition(number, None, some) for number, some in enumerate(copies, 1)]
    failed = FailureDocument(1, "its group lags") if status is F else None
    found = StoredCheckpoint(id, asked, tuple(parts), failed=failed)
    assert found.status is status
    return found


def history(*statuses: Status) -> list[StoredCheckpoint]:
    """Ids from 1, created a second after each other, the last one a second ago."""
    first = NOW - 1_000 * len(statuses)
    return [of_status(at + 1, one, first + 1_000 * at) for at, one in enumerate(statuses)]


@pytest.mark.parametrize(
    ("statuses", "limits", "gone"),
    [
        ((C, C, C), Retention(2), (1,)),
        ((C, C, C), Retention(0), (1, 2)),
        ((C, F, C, F), Retention(1), (1, 2)),
        ((F, F, F), Retention(1), ()),
        ((C, C, O), Retention(1), (1,)),
        ((O, C, C), Retention(1), (2,)),
        ((I, C), Retention(1), (1,)),
        ((C,), Retention(5), ()),
        ((C, C, F, C), Retention(None, 2_500), (1, 2)),
        ((C, F, F), Retention(None, 0), (2, 3)),
        ((C, O, F), Retention(None, 1_500), ()),
    ],
)
def test_the_newest_completed_ones_are_kept_and_what_is_newer_and_old_ones_go(
    statuses: tuple[Status, ...], limits: Retention, gone: tuple[int, ...]
) -> None:
    unknown = [of_status(9, F, None)] * (limits.keep is None)
    assert expired([*unknown, *history(*statuses)], limits, NOW) == gone
