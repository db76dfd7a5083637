"""What is said of a checkpoint under the cursor."""

from __future__ import annotations

from pathlib import Path

from breakglass.screens.checkpoints import columns, line_facts
from breakglass.services.checkpoint.protocol.flows import (
    CheckpointEvidence,
    Committing,
    GroupEvidence,
    TopicEvidence,
    WriterKind,
)
from breakglass.services.checkpoint.protocol.values import CopyId
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.checkpoint.store.documents import CutDocument
from breakglass.services.checkpoint.watch import (
    CheckpointLine,
    CheckpointPartitionLine,
    CheckpointWatch,
    Line,
    lines,
)
from breakglass.services.topic_backup.part import part_names
from breakglass.services.topic_backup.segment_index import ENTRY
from breakglass.services.topic_backup.segment_reader import MAGIC
from tests.unit.checkpoint.store.stores import POSITION, SUBJECTS, reserved


def failed(line: Line) -> list[str]:
    facts = (fact for fact in line_facts(line) if fact.label == "Failed")
    return ["".join(part.text for part in fact.parts) for fact in facts]


def test_equal_reasons_are_said_once_and_a_partition_under_way_has_that_of_the_whole(
    tmp_path: Path,
) -> None:
    store = reserved(reserved(BackupStore(str(tmp_path)), 1), 2)
    for subject in SUBJECTS:
        store.copies.fail(CopyId(1, subject.number, 0), "disk full")
    store.copies.begin(CopyId(2, 1, 0), POSITION, "1.0")
    store.fail_checkpoint(2, "group bank lags")
    one, two = (found for id in (1, 2) if (found := store.read(id)) is not None)
    line = CheckpointLine(store.address, one, opened=False)
    assert failed(line) == ["orders-0..2 (3 partitions): disk full"]
    part = CheckpointPartitionLine(store.address, two, two.partitions[0])
    assert failed(part) == ["group bank lags"]


def test_who_wrote_the_topics_and_what_a_better_promise_lacks_are_said(tmp_path: Path) -> None:
    store = reserved(BackupStore(str(tmp_path)), 1)
    topic = TopicEvidence(
        "orders", 3, 9, (WriterKind.IDEMPOTENT,), stamped=False, unstamped="orders-0 at offset 2"
    )
    group = GroupEvidence("billing", "classic", "Empty", ("orders",), Committing.PLAIN)
    positions = {subject.number: POSITION for subject in SUBJECTS}
    store.decide(1, CutDocument(1, positions, evidence=CheckpointEvidence((topic,), (group,))))
    found = store.read(1)
    assert found is not None
    said = [
        (fact.label, "".join(part.text for part in fact.parts))
        for fact in line_facts(CheckpointLine(store.address, found, opened=False))
    ]
    assert ("Written by", "orders: idempotent") in said
    assert ("Commits", "billing commits: plain") in said
    assert [text for label, text in said if label == "For more" and "billing" in text]


def test_a_copy_under_way_says_how_far_it_is(tmp_path: Path) -> None:
    store = reserved(BackupStore(str(tmp_path)), 1)
    store.copies.begin_all({CopyId(1, subject.number, 0): None for subject in SUBJECTS})
    store.decide(1, CutDocument(1, {subject.number: POSITION for subject in SUBJECTS}))
    segments = tmp_path / "contents" / "1" / "1" / "0" / "segments" / "orders"
    segments.mkdir(parents=True)
    records, index = part_names("run", 0, 0, 0)
    (segments / records).write_bytes(bytes(1_000))
    entries = (ENTRY.pack(offset, 1, 10) for offset in range(20, 40))
    (segments / index).write_bytes(MAGIC + b"".join(entries))
    (seen,) = CheckpointWatch((store.address,)).look()
    _, _, first, *_ = lines([seen], frozenset({(store.address, 1)}))
    told = ["".join(part.text for part in fact.parts) for fact in line_facts(first)]
    assert told[0] == "20 of <= 80 records so far, 1.0 kB of ~4.0 kB; cut at 100, 0 in transit"
    cells = {column.title: column.words(first).text for column in columns(0)}
    assert (cells["Copied"], cells["Size"], cells["Records"]) == ("25%", "1.0 kB", "20")
