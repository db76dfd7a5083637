"""What is said of checkpoints, how far they are, where they lie, and who is at work on them."""

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from breakglass.console.checkpoint_text import CommandText
from breakglass.services.checkpoint.acts.restore import how_it_ended
from breakglass.services.checkpoint.parts import alone
from breakglass.services.checkpoint.protocol.lineage import GroupFlow
from breakglass.services.checkpoint.protocol.values import CopyId, Status
from breakglass.services.checkpoint.store.backup_store import (
    BackupStore,
    host_of,
    require_there,
    same_machine,
    this_machine,
)
from breakglass.services.checkpoint.store.documents import (
    CutDocument,
    GroupPolicy,
    Level,
    NumberedPartition,
    TakeDocument,
)
from breakglass.services.checkpoint.watch import CheckpointWatch, SoFar, so_far
from breakglass.services.checkpoint.wording import (
    ANOTHER_FAILED,
    KEPT,
    REMOVED,
    SettingsGiven,
    given,
    same_again,
    why_failed,
)
from breakglass.services.errors import AlreadyRunning, StorageError, UsageError
from breakglass.services.model import Unknown
from breakglass.services.pipeline.restore.restore import TopicRestored
from breakglass.services.topic_backup.layout import records_name, segment_index_name, segment_prefix
from breakglass.services.topic_backup.part import part_names
from breakglass.services.topic_backup.segment_index import ENTRY
from breakglass.services.topic_backup.segment_reader import MAGIC
from tests.unit.checkpoint.store.stores import (
    POSITION,
    SUBJECTS,
    completed,
    copied,
    reserved,
    stored,
    take,
)

BANK = (
    *(NumberedPartition(number, "bank", number - 1) for number in (1, 2, 3, 4)),
    NumberedPartition(5, "orders", 0),
)


@pytest.fixture
def bank(tmp_path: Path) -> BackupStore:
    """Checkpoint 1, reserved, of four partitions of one topic and one of another."""
    store = BackupStore(str(tmp_path))
    assert store.reserve(take(1, subjects=BANK)) is None
    return store


def test_i09_no_partition_of_a_failed_checkpoint_is_ongoing(bank: BackupStore) -> None:
    copied(bank, CopyId(1, 1, 0))
    for number in (2, 3, 4, 5):
        bank.copies.begin(CopyId(1, number, 0), POSITION, "1.0")
    assert stored(bank).partitions[1].status is Status.ONGOING
    bank.copies.fail(CopyId(1, 3, 0), "disk full")
    found = stored(bank)
    assert [partition.status for partition in found.partitions] == [
        Status.COMPLETED,
        *4 * [Status.FAILED],
    ]
    whys = [why_failed(partition, found) for partition in found.partitions]
    assert whys == [None, ANOTHER_FAILED, "disk full", ANOTHER_FAILED, ANOTHER_FAILED]


def test_the_same_again_has_the_topology_and_what_is_external(tmp_path: Path) -> None:
    store = BackupStore(str(tmp_path))
    subjects = tuple(NumberedPartition(number, topic, 0) for number, topic in enumerate("abc", 1))
    flow = GroupFlow("g1", ("a",), ("b",))
    groups = {"g1": GroupPolicy.AT_LEAST_ONCE, "g2": GroupPolicy.LEFT_OUT}
    take = TakeDocument(
        1, Level.ORDERED, subjects, "request", 1, groups=groups, external=("c",), flows=(flow,)
    )
    assert store.reserve(take) is None
    found = stored(store)
    assert found.take == take
    asked = CommandText().take(same_again(found))
    assert (asked.groups, asked.level) == (groups, Level.ORDERED)
    assert (asked.external, asked.flows) == (("c",), (flow,))


SAVED = {"retention.ms": "1000", "message.format.version": "2.8", "min.insync.replicas": "2"}


def test_a_new_topic_gets_what_was_saved_but_for_what_brokers_do_not_have_any_more() -> None:
    assert given("bank2", SAVED, SAVED, exists=False) == SettingsGiven(
        "bank2",
        {"min.insync.replicas": "2", "retention.ms": "1000"},
        {"message.format.version": REMOVED},
    )


def test_a_topic_that_is_there_keeps_its_own() -> None:
    found = given("bank", {"retention.ms": "5", "min.insync.replicas": "2"}, SAVED, exists=True)
    assert found.settings == {"min.insync.replicas": "2", "retention.ms": "5"}
    assert found.left_out == {"message.format.version": REMOVED, "retention.ms": KEPT}


def test_a_restore_is_complete_only_if_no_step_failed_and_what_was_not_compared_is_said() -> None:
    whole = TopicRestored("bank", "bank2", settings_back=True, verified=True)
    unread = replace(whole, verified=None)
    for torn in (replace(whole, verified=False), replace(whole, error="it is gone")):
        assert "Start no members" in how_it_ended([whole, torn])
    assert how_it_ended([whole]) != how_it_ended([whole, unread])
    assert "not every topic was compared" in how_it_ended([whole, unread])
    assert "did not compare earlier-back" in how_it_ended([whole], ["earlier-back"])


def test_an_empty_folder_is_a_store_and_one_that_is_not_there_is_none(tmp_path: Path) -> None:
    require_there(str(tmp_path))
    missing, nothing = str(tmp_path / "missing"), f"memory://{uuid4().hex}"
    for place in (missing, nothing):
        with pytest.raises(UsageError):
            require_there(place)
    here, there = CheckpointWatch((str(tmp_path), missing)).look()
    assert here.held == ()
    assert isinstance(there.held, Unknown)
    completed(BackupStore(nothing), 1)
    require_there(nothing)


FIRST = 40
"""The first offset of each copy."""


@pytest.fixture
def copying(tmp_path: Path) -> BackupStore:
    """Checkpoint 1 is being copied by node 0: begun, decided, and nothing written yet."""
    store = reserved(BackupStore(str(tmp_path)), 1)
    store.start(1, {})
    store.copies.begin_all({CopyId(1, subject.number, 0): None for subject in SUBJECTS})
    store.decide(1, CutDocument(1, {subject.number: POSITION for subject in SUBJECTS}))
    return store


def written(store: BackupStore, names: tuple[str, str], first: int, count: int) -> None:
    """A segment of partition 1 with so many records of 10 bytes, as it grows."""
    folder = Path(store.address, "contents", "1", "1", "0", "segments", "orders")
    folder.mkdir(parents=True, exist_ok=True)
    records, index = names
    (folder / records).write_bytes(MAGIC + bytes(10) * count)
    entries = (ENTRY.pack(first + at, 1 + 10 * at, 10) for at in range(count))
    (folder / index).write_bytes(MAGIC + b"".join(entries))


def test_what_tasks_have_written_counts_before_it_has_its_place(copying: BackupStore) -> None:
    written(copying, part_names("run", 0, 0, 0), FIRST, 15)
    found = so_far(copying, stored(copying))
    assert found[1] == SoFar(15, 151, POSITION - FIRST)
    assert found[1].bytes_expected == 151 * (POSITION - FIRST) // 15
    assert found[2].records == 0
    prefix = segment_prefix(0, FIRST)
    written(copying, (records_name(prefix), segment_index_name(prefix)), FIRST, 5)
    assert so_far(copying, stored(copying))[1].records == 20, "with segments in their places"


def test_a_machine_keeps_its_name_and_another_has_another(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    with ThreadPoolExecutor(8) as pool:
        names = set(pool.map(this_machine, [one] * 8))
    assert names == {this_machine(one)}
    assert not same_machine(this_machine(one), this_machine(other))
    assert [path.name for path in one.iterdir()] == ["machine"]
    assert same_machine("0" * 32 + "@before", "0" * 32 + "@after")
    assert host_of("0" * 32 + "@db-7") == "db-7"


@pytest.mark.parametrize("content", [b"", b"db-7", b"\xff" * 40, b"0" * 1000])
def test_a_file_that_holds_no_name_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "machine").write_bytes(content)
    with pytest.raises(StorageError, match=r"remove it|check its rights"):
        this_machine(tmp_path)


HOLDING = """
import sys
from pathlib import Path
from breakglass.services.checkpoint.parts import alone
with alone(sys.argv[1], 0, Path(sys.argv[2]), 7):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def locks(tmp_path: Path) -> Path:
    return tmp_path / "locks"


def test_a_worker_that_is_killed_keeps_nobody_out(tmp_path: Path, locks: Path) -> None:
    arguments = [sys.executable, "-c", HOLDING, str(tmp_path), str(locks)]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == b"held\n"
        with pytest.raises(AlreadyRunning), alone(f"{tmp_path}/other/..", 0, locks, 7):
            pytest.fail("both are at work")
        worker.kill()
        worker.wait()
    with alone(str(tmp_path), 0, locks, 7):
        pass


ROOT = Path(__file__).parents[3]
PAGE = ROOT / "tests" / "lab" / "checkpoint" / "README.md"
CODE = ROOT / "services" / "checkpoint"
ROW = re.compile(
    r"^\| (?P<term>.+?) \| .+ \| `(?P<module>[a-z_/]+\.py)` \| `(?P<test>test_\w+)` \|$"
)


def rows() -> list[re.Match[str]]:
    data = PAGE.read_text("utf-8").split("| The ZEP | On")[1].split("\n\n")[0].splitlines()[2:]
    found = [ROW.match(text) for text in data]
    assert all(found), [line for line, one in zip(data, found, strict=True) if one is None]
    return [match for match in found if match is not None]


def test_every_module_and_test_that_the_zeps_terms_name_is_there() -> None:
    files = (ROOT / "tests").rglob("test_*.py")
    text = "\n".join(file.read_text("utf-8") for file in files)
    defined = re.findall(r"^\s*(?:async )?def (test_\w+)\(", text, re.MULTILINE)
    assert [row["module"] for row in rows() if not (CODE / row["module"]).is_file()] == []
    assert [row["test"] for row in rows() if row["test"] not in set(defined)] == []
