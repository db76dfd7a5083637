"""Rescues that no journal names: what of them is accounted for, and what is not."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from uuid import UUID

import pytest

from breakglass.services.recovery.ledger.assemble import gathered, ledger_of
from breakglass.services.recovery.ledger.entries import Fate, IncidentLedger
from breakglass.services.recovery.timeline.account import account_of
from breakglass.services.topic_backup.manifest import TopicIdentity
from breakglass.services.topic_backup.topic_writer import TopicWriter
from tests.kit.batches import decode_batches
from tests.unit.recovery.ledger import incidents
from tests.unit.recovery.ledger.incidents import CLUSTER, FORKED, LEDGER
from tests.unit.recovery.replicas import ANOTHER_TOPIC_ID, TOPIC_ID
from tests.unit.topic_backup.batch_bytes import batch
from tests.unit.topic_backup.shapes import run

Batches = Sequence[tuple[int, int, int]]
"""Start, end and leader epoch of each."""


def copied(
    root: Path,
    batches: Batches,
    *,
    broker: int = 2,
    topic_id: UUID = TOPIC_ID,
    cluster: str = CLUSTER,
) -> Path:
    """A rescue of ledger-3 with these batches; returns its topic's folder."""
    folder = root / f"cluster-{CLUSTER}" / "20231114T230000.000000Z" / f"b{broker}"
    identity = TopicIdentity(
        "ledger", cluster, topic_id, origin={"rescued from broker": str(broker)}
    )
    written = b"".join(batch(run(start, end), epoch=epoch) for start, end, epoch in batches)
    with TopicWriter(folder, identity) as writer:
        partition = writer.partition(3)
        for one in decode_batches(written, "a log"):
            partition.append_batch(one)
        partition.sync()
        writer.commit()
    return folder / "ledger"


def elected(folder: Path) -> Path:
    """The journal of an election of b1 without a rescue: b2's 50 are lost."""
    with incidents.begun(folder, FORKED) as journal:
        incidents.elect(journal, FORKED)
        journal.finish("succeeded")
    return journal.path


def made(folder: Path, *rescued: Path, journal: Path | None = None) -> IncidentLedger:
    return ledger_of(gathered(account_of(journal or elected(folder)), folder, rescued=rescued))


def figures(ledger: IncidentLedger) -> Mapping[Fate, int]:
    assert ledger.adds_up, ledger.differences
    assert ledger.held == 175
    return {fate: part.total for fate, part in ledger.sums.items()}


@pytest.mark.parametrize(
    ("batches", "rescued"),
    [
        pytest.param([(100, 150, 1)], 50, id="the tail"),
        pytest.param([(0, 100, 0), (100, 150, 1)], 50, id="the whole log"),
        pytest.param([(100, 120, 1)], 20, id="a part"),
        pytest.param([(100, 125, 2)], 0, id="the winner's records at these offsets"),
        pytest.param([(100, 130, 1), (130, 150, 3)], 30, id="another log from an offset on"),
    ],
)
def test_a_copy_counts_where_epoch_and_offset_are_those_of_the_log(
    tmp_path: Path, batches: Batches, rescued: int
) -> None:
    copied(tmp_path / "beside", batches)
    found = figures(made(tmp_path, tmp_path / "beside"))
    assert found.get(Fate.RESCUED, 0) == rescued
    assert found[Fate.KEPT] == 125
    assert found.get(Fate.LOST, 0) == 50 - rescued


def test_another_topic_or_cluster_of_the_name_and_files_that_are_gone_are_no_copy(
    tmp_path: Path,
) -> None:
    copied(tmp_path / "topic", [(100, 150, 1)], topic_id=ANOTHER_TOPIC_ID)
    copied(tmp_path / "cluster", [(100, 150, 1)], cluster="another")
    for path in copied(tmp_path / "gone", [(100, 150, 1)]).glob("*_records"):
        path.unlink()
    places = [tmp_path / name for name in ("topic", "cluster", "gone", "nothing")]
    ledger = made(tmp_path, *places)
    assert figures(ledger) == {Fate.KEPT: 125, Fate.LOST: 50}
    assert len(ledger.notes) == 4


def test_what_was_put_back_from_it_is_put_back(tmp_path: Path) -> None:
    topic = copied(tmp_path / "beside", [(100, 150, 1)])
    journal = elected(tmp_path)
    incidents.put_back(tmp_path, topic)
    ledger = made(tmp_path, tmp_path / "beside", journal=journal)
    assert figures(ledger) == {Fate.KEPT: 125, Fate.PUT_BACK: 10, Fate.RESCUED: 40}


def test_a_copy_of_an_unread_log_is_named_and_in_no_sum(tmp_path: Path) -> None:
    copied(tmp_path / "beside", [(150, 170, 3)], broker=3)
    ledger = made(tmp_path, tmp_path / "beside")
    assert figures(ledger) == {Fate.KEPT: 125, Fate.LOST: 50}
    (note,) = ledger.notes
    assert all(word in note for word in (str(LEDGER), "b3", "150-169"))


def test_a_restore_of_an_unread_logs_records_is_named_and_in_no_sum(tmp_path: Path) -> None:
    topic = copied(tmp_path / "beside", [(150, 170, 3)], broker=3)
    journal = elected(tmp_path)
    back = incidents.put_back(tmp_path, topic, start=150, end=170, records=20, spans=[[150, 170]])
    ledger = made(tmp_path, tmp_path / "beside", journal=journal)
    assert Fate.PUT_BACK not in figures(ledger)
    assert any(back.stem in note and "20 records of b3" in note for note in ledger.notes)
