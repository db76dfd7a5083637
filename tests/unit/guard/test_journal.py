"""The journal: on disk before anything is sent, readable after any crash, gone on with once."""

import contextlib
import json
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from breakglass.services.errors import (
    AlreadyRunning,
    MalformedInput,
    StorageError,
    UnsupportedSchema,
)
from breakglass.services.guard.journal import (
    UNKNOWN,
    EntryKind,
    Journal,
    JournalView,
    StepOutcome,
    list_journals,
    read,
)
from breakglass.services.guard.lock import operator
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.execution.steps import journal_bytes
from tests.kit.extent import examples
from tests.unit.recovery.execution.conftest import Bench
from tests.unit.recovery.execution.conftest import bench as bench

CLUSTER = "4L6g3nShT-eMCtK--X86sw"
ORDERS_0, ORDERS_1, LEDGER_3 = (
    TopicPartition("orders", 0),
    TopicPartition("orders", 1),
    TopicPartition("ledger-a", 3),
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def journal(folder: Path) -> Iterator[Journal]:
    with Journal.open(CLUSTER, folder) as opened:
        yield opened


def execution(journal: Journal) -> None:
    """Write an execution of two steps that was cut off in the second."""
    journal.plan("d1", "e1", {ORDERS_0: {"designee": 2}, LEDGER_3: {"designee": 1}})
    journal.consent("2 partitions lose 50")
    reorder = journal.request("reorder", {ORDERS_0: {"before": [1, 2]}, LEDGER_3: {"before": [3]}})
    journal.outcome(reorder, {ORDERS_0: {"result": "done"}})
    journal.outcome(reorder, {LEDGER_3: {"result": UNKNOWN, "reason": "timed out"}})
    journal.request("elect", {ORDERS_0: {}}, batch=1)


def test_an_execution_is_read_back_as_its_steps_and_what_became_of_them(journal: Journal) -> None:
    execution(journal)
    view = read(journal.path)
    assert view.cluster_id == CLUSTER
    assert view.who == operator()
    assert view.plan is not None
    assert view.plan.payload == {"digest": "d1", "evidence_digest": "e1"}
    assert view.plan.items == {ORDERS_0: {"designee": 2}, LEDGER_3: {"designee": 1}}
    assert view.consent is not None
    assert view.consent.payload == {"who": operator(), "phrase": "2 partitions lose 50"}
    reorder, elect = view.steps
    assert (reorder.name, elect.name) == ("reorder", "elect")
    assert reorder.items == {ORDERS_0: {"before": [1, 2]}, LEDGER_3: {"before": [3]}}
    assert reorder.outcomes == {
        ORDERS_0: StepOutcome("done", {}),
        LEDGER_3: StepOutcome(UNKNOWN, {"reason": "timed out"}),
    }
    assert elect.request.payload == {"step": "elect", "batch": 1}
    assert view.steps_of(LEDGER_3) == (reorder,)
    assert view.steps_of(ORDERS_1) == ()


def test_a_step_is_unsettled_until_its_outcome_is_known(journal: Journal) -> None:
    execution(journal)
    reorder, elect = read(journal.path).unsettled
    assert (reorder.unsettled, elect.unsettled) == ((LEDGER_3,), (ORDERS_0,))
    journal.outcome(4, {LEDGER_3: {"result": "done"}})
    view = read(journal.path)
    assert ([step.name for step in view.unsettled], view.result) == (["elect"], None)
    journal.finish("recovered", elected=2)
    assert read(journal.path).result == "recovered"


def test_every_entry_is_one_line_of_ascii_json_whatever_is_said_in_it(journal: Journal) -> None:
    journal.note("naïve\nnote\x1b[31m", reason="☃", seq=99, kind="closed", schema=7)
    lines = journal.path.read_bytes().decode("ascii").splitlines()
    opened, note = map(json.loads, lines)
    assert [opened[key] for key in ("schema", "seq", "kind")] == [1, 1, "opened"]
    assert [note[key] for key in ("schema", "seq", "kind")] == [1, 2, "note"]
    assert note["text"] == "naïve\nnote\x1b[31m"
    assert opened["at_ms"] <= note["at_ms"]


def test_an_entry_is_on_disk_when_its_method_returns(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[bytes] = []
    real = os.fsync

    def watched(descriptor: int) -> None:
        real(descriptor)
        synced.append(journal.path.read_bytes())

    monkeypatch.setattr(os, "fsync", watched)
    journal.request("elect", {ORDERS_0: {}})
    assert synced[-1] == journal.path.read_bytes()
    assert b'"elect"' in synced[-1]


@pytest.mark.parametrize("cluster", ["../../etc", "a/b", "..", ".", "", "\0", "ключ"])
def test_a_cluster_id_cannot_lead_out_of_the_folder(folder: Path, cluster: str) -> None:
    with Journal.open(cluster, folder) as journal:
        assert journal.path.parent.parent == folder / "journal"
    (view,) = list_journals(cluster, folder)
    assert isinstance(view, JournalView)
    assert view.cluster_id == cluster


@pytest.mark.parametrize(
    "payload",
    [
        {"text": "x", "value": object()},
        {"text": "x", "value": float("nan")},
        {"text": "x", "value": {ORDERS_0: 1}},
        {},
    ],
)
def test_what_cannot_be_written_is_refused_and_leaves_no_trace(
    journal: Journal, payload: dict[str, Any]
) -> None:
    before = journal.path.read_bytes()
    with pytest.raises((TypeError, ValueError)):
        journal.record(EntryKind.NOTE, **payload)
    assert journal.path.read_bytes() == before
    request = journal.request("elect", {ORDERS_0: {}})
    with pytest.raises(ValueError, match="result"):
        journal.outcome(request, {ORDERS_0: {"reason": "?"}})
    assert read(journal.path).entries[-1].seq == request == 2


def test_threads_write_whole_entries_in_one_order(journal: Journal) -> None:
    def write(name: int) -> None:
        for _ in range(20):
            journal.note(f"from {name}", padding="x" * 500)

    threads = [threading.Thread(target=write, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [entry.seq for entry in read(journal.path).entries] == list(range(1, 82))


@contextlib.contextmanager
def full_disk(bytes_left: int, path: Path) -> Iterator[None]:
    """Let *path* grow by no more than *bytes_left*, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + bytes_left, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("bytes_left", [0, 1, 40])
def test_a_full_disk_is_an_error_before_the_step_and_leaves_no_half_line(
    journal: Journal, bytes_left: int
) -> None:
    execution(journal)
    before = journal.path.read_bytes()
    with full_disk(bytes_left, journal.path), pytest.raises(StorageError):
        journal.request("elect", {ORDERS_1: {}})
    assert journal.path.read_bytes() == before
    journal.note("space again")
    assert not read(journal.path).torn


def test_an_interrupt_while_writing_leaves_no_entry(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(descriptor: int) -> None:
        raise KeyboardInterrupt

    before = journal.path.read_bytes()
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", interrupted)
        with pytest.raises(KeyboardInterrupt):
            journal.request("elect", {ORDERS_0: {}})
    assert journal.path.read_bytes() == before
    journal.note("what is next has the number that was not used")
    assert read(journal.path).entries[-1].seq == 2


@settings(max_examples=examples(40))
@given(lost=st.integers(min_value=1))
def test_a_journal_cut_off_anywhere_is_read_up_to_its_last_whole_line(
    tmp_path_factory: pytest.TempPathFactory, lost: int
) -> None:
    folder = tmp_path_factory.mktemp("state")
    with Journal.open(CLUSTER, folder) as journal:
        execution(journal)
    data = journal.path.read_bytes()
    first = data.index(b"\n") + 1
    kept = len(data) - 1 - lost % (len(data) - first)
    with journal.path.open("r+b") as file:
        file.truncate(kept)
    whole = data[:kept].count(b"\n")
    view = read(journal.path)
    assert len(view.entries) == whole
    assert view.torn == (data[kept - 1 : kept] != b"\n")

    resumed, before = Journal.resume(journal.path, folder)
    with resumed:
        assert before == view
        resumed.note("gone on")
    kinds = [entry.kind for entry in read(journal.path).entries]
    assert kinds[whole:] == [EntryKind.RESUMED, EntryKind.NOTE]
    assert not read(journal.path).torn


def test_resuming_says_who_went_on_and_keeps_the_numbers(folder: Path, journal: Journal) -> None:
    execution(journal)
    journal.close()
    resumed, view = Journal.resume(journal.path, folder)
    with resumed:
        assert len(view.unsettled) == 2
        assert resumed.outcome(4, {LEDGER_3: {"result": "done"}}) == 9
    after = read(journal.path)
    assert after.entries[7].kind is EntryKind.RESUMED
    assert after.entries[7].payload == {"who": operator(), "torn": False}
    assert [step.name for step in after.unsettled] == ["elect"]


def test_a_running_journal_cannot_be_resumed_nor_another_one_opened(
    folder: Path, journal: Journal, tmp_path: Path
) -> None:
    """A colleague with another state folder holds another cluster lock."""
    for state in (folder, tmp_path / "colleague"):
        with pytest.raises(AlreadyRunning):
            Journal.resume(journal.path, state)
    with pytest.raises(AlreadyRunning):
        Journal.open(CLUSTER, folder)
    journal.note("it goes on")
    journal.close()
    journal.close()
    with pytest.raises(StorageError):
        journal.note("too late")
    assert len(read(journal.path).entries) == 2


def test_a_journal_that_cannot_be_begun_frees_the_cluster(folder: Path) -> None:
    folder.mkdir()
    (folder / "journal").write_text("in the way")
    with pytest.raises(StorageError):
        Journal.open(CLUSTER, folder)
    (folder / "journal").unlink()
    Journal.open(CLUSTER, folder).close()


OPENED = {"schema": 1, "seq": 1, "kind": "opened", "at_ms": 1, "cluster_id": "c", "who": "a@b"}
NOTE = {"schema": 1, "seq": 2, "kind": "note", "at_ms": 1, "text": "x"}


@pytest.mark.parametrize(
    ("lines", "place"),
    [
        (["{]"], "1 column 2"),
        ([b"\xff{}"], "1 column 1"),
        (["[]"], "1 column 1"),
        (['{"kind": "note"}'], "1 column 1"),
        ([NOTE], "1 column 1"),
        ([OPENED, "", NOTE], "2 column 1"),
        ([OPENED, "\0\0\0", NOTE], "2 column 1"),
        ([OPENED, NOTE | {"kind": "dance"}], "2 column 1"),
        ([OPENED, NOTE | {"seq": 3}], "2 column 1"),
        ([OPENED, {"schema": 1, "seq": 2, "kind": "note", "at_ms": 1}], "2 column 1"),
        ([OPENED, NOTE | {"at_ms": float("inf")}], "2 column 1"),
        ([OPENED, NOTE | {"items": [{"topic": "t", "partition": float("inf")}]}], "2 column 1"),
        ([OPENED, NOTE | {"items": [{"topic": "t"}]}], "2 column 1"),
        ([OPENED, NOTE | {"items": 5}], "2 column 1"),
        ([OPENED, NOTE | {"kind": "outcome", "request": 7}], "2 column 1"),
        ([OPENED, NOTE | {"kind": "outcome", "request": [7]}], "2 column 1"),
        ([], "1 column 1"),
    ],
)
def test_s48_a_damaged_journal_is_refused_with_line_and_column(
    tmp_path: Path, lines: list[Any], place: str
) -> None:
    path = tmp_path / "j.jsonl"
    written = [json.dumps(line) if isinstance(line, dict) else line for line in lines]
    path.write_bytes(
        b"".join((text if isinstance(text, bytes) else text.encode()) + b"\n" for text in written)
    )
    with pytest.raises(MalformedInput, match=f"line {place}"):
        read(path)


@pytest.mark.parametrize("schema", [0, 2])
def test_an_entry_of_another_schema_is_refused_wherever_it_is(tmp_path: Path, schema: int) -> None:
    path = tmp_path / "j.jsonl"
    path.write_text(f"{json.dumps(OPENED)}\n{json.dumps(NOTE | {'schema': schema})}\n")
    with pytest.raises(UnsupportedSchema):
        read(path)


DISK_BYTES = 8 * 1024 * 1024
ON_A_SMALL_DISK = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
MOUNT = 'mount -t tmpfs -o size=$1 none "$2" && exec "$3" -c "$4" "$2"'
FULL_IN_THE_MIDDLE = """
import errno, os, sys
from pathlib import Path
from breakglass.services.errors import StorageError
from breakglass.services.guard.journal import Journal, read
from breakglass.services.model import TopicPartition

def fill(folder):
    descriptor = os.open(folder / "filler", os.O_WRONLY | os.O_CREAT)
    for size in (1 << 20, 4096, 1):
        try:
            while True:
                os.write(descriptor, bytes(size))
        except OSError as error:
            assert error.errno == errno.ENOSPC
    os.close(descriptor)

def refused(act):
    try:
        act()
    except StorageError as error:
        return str(error)
    raise AssertionError("nothing was refused")

def write(journal, count):
    for _ in range(count):
        journal.request("elect", {TopicPartition("orders", 1): {"padding": "x" * 10_000}})

folder = Path(sys.argv[1])
with Journal.open("cluster", folder / "with") as journal:
    journal.reserve(2 * 1024 * 1024)
    fill(folder)
    write(journal, 100)
    view = read(journal.path)
    assert (len(view.entries), view.torn) == (101, False)
    assert [path.suffix for path in journal.path.parent.iterdir()] == [".jsonl"]
    print("reserved")
    assert "No space left on device" in refused(lambda: write(journal, 100_000))
    assert not read(journal.path).torn
(folder / "filler").unlink()
with Journal.open("cluster", folder / "with") as journal:
    assert "67,108,864" in refused(lambda: journal.reserve(64 * 1024 * 1024))
    print("refused")
with Journal.open("cluster", folder / "without") as journal:
    fill(folder)
    refused(lambda: write(journal, 100))
    print("unreserved")
"""


def test_what_was_reserved_is_written_though_others_fill_the_disk(tmp_path: Path) -> None:
    arguments = ["sh", str(DISK_BYTES), str(tmp_path), sys.executable, FULL_IN_THE_MIDDLE]
    ended = subprocess.run([*ON_A_SMALL_DISK, MOUNT, *arguments], capture_output=True, text=True)
    if not ended.stdout and "Traceback" not in ended.stderr:
        pytest.skip(f"no file system can be mounted here: {ended.stderr.strip()}")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.split() == ["reserved", "refused", "unreserved"]


@pytest.mark.parametrize("count", [1, 150])
def test_a_run_takes_no_more_than_was_reserved_for_it(bench: Bench, count: int) -> None:
    targets = bench.offline(count=count)
    before = bench.journal.path.stat().st_size
    bench.run(targets)
    taken = bench.journal.path.stat().st_size - before
    assert taken < journal_bytes(targets, rescued=False, limits=bench.limits) < 30 * taken
