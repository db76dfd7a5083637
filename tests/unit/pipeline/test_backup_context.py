"""Generations of a topic's backup, when the topic was created again."""

from pathlib import Path

import pytest

from breakglass.services.errors import AlreadyRunning, UsageError
from breakglass.services.model import TopicPartition
from breakglass.services.pipeline.backup_context import (
    BackupReport,
    Generation,
    NewGeneration,
    PartitionReport,
    TopicReport,
    following,
    latest,
    require_replaceable,
    set_aside,
)
from breakglass.services.pipeline.continuous import Followed
from breakglass.services.topic_backup.catalog import held_topics, newest
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.manifest import TopicIdentity
from breakglass.services.topic_backup.store.form import StoredForm
from breakglass.services.topic_backup.store.store import LocalStore, ObjectStore
from breakglass.services.topic_backup.summary import Gap, GapReason, Unproved
from breakglass.services.topic_backup.topic_writer import TopicWriter

BESIDE, REPLACE = NewGeneration.BESIDE, NewGeneration.REPLACE


def committed(root: Path, generation: Generation, log: str) -> None:
    """A generation with a commit; *log* is the cluster it says it is of, to tell it apart."""
    folder = root / generation.name
    with TopicWriter(root, TopicIdentity(generation.name, cluster_id=log)) as writer:
        writer.partition(0)
        writer.commit()
    assert folder.is_dir()


def begin(root: Path, log: str, how: NewGeneration | None) -> Generation:
    """The next generation, as a run begins it."""
    store = LocalStore(root)
    before = latest(store, "orders")
    begun = following(before, how)
    if begun.others_aside:
        set_aside(store, before)
    committed(root, begun, log)
    return begun


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A backup of a topic's first log."""
    committed(tmp_path, Generation("orders"), "first")
    return tmp_path


@pytest.mark.parametrize(
    ("choices", "folders"),
    [
        ([BESIDE, BESIDE], ["orders", "orders~2", "orders~3"]),
        ([None, None], ["orders", "orders~2", "orders~3"]),
        ([REPLACE, REPLACE], ["orders~1", "orders~2", "orders"]),
        ([REPLACE, None], ["orders~1", "orders~2", "orders"]),
        ([BESIDE, REPLACE], ["orders~1", "orders~2", "orders"]),
    ],
)
def test_generations_stay_in_the_order_in_which_they_began(
    root: Path, choices: list[NewGeneration | None], folders: list[str]
) -> None:
    for number, how in enumerate(choices):
        begin(root, f"log-{number}", how)
    # Number, folder and log of each generation, oldest first.
    found = [
        (held.generation, held.name, (root / held.name / "breakglass_manifest.json").read_text())
        for held in held_topics(LocalStore(root))
    ]
    assert [(number, name) for number, name, _ in found] == list(enumerate(folders, start=1))
    for (_, _, manifest), log in zip(found, ("first", "log-0", "log-1"), strict=True):
        assert f'"{log}"' in manifest
    (last,) = newest(held_topics(LocalStore(root)))
    assert last.name == folders[-1] == latest(LocalStore(root), "orders").name


def test_a_generation_beside_replaced_ones_is_refused(root: Path) -> None:
    begin(root, "second", REPLACE)
    with pytest.raises(UsageError):
        begin(root, "third", BESIDE)


def test_a_run_that_ended_after_it_had_set_the_older_log_aside_is_taken_up(root: Path) -> None:
    store = LocalStore(root)
    set_aside(store, latest(store, "orders"))
    assert [(held.generation, held.name) for held in held_topics(store)] == [(1, "orders~1")]
    assert latest(store, "orders") == Generation("orders", 2, others_aside=True)


def test_nothing_is_set_aside_while_another_process_writes_there(root: Path) -> None:
    store = LocalStore(root)
    with LocalFolder(root / "orders").lock(), pytest.raises(AlreadyRunning):
        set_aside(store, latest(store, "orders"))
    assert (root / "orders").is_dir()


@pytest.mark.parametrize("form", [StoredForm(compressed=True), StoredForm(encrypted=True)])
def test_what_kafka_backup_cannot_read_has_no_folder_to_replace(
    root: Path, form: StoredForm
) -> None:
    with pytest.raises(UsageError):
        require_replaceable(LocalStore(root), form)
    with pytest.raises(UsageError):
        require_replaceable(ObjectStore("memory://backups"), None)
    require_replaceable(LocalStore(root), StoredForm())


def report(**of_partition: object) -> BackupReport:
    partition = PartitionReport(TopicPartition("orders", 0), 0, 10)
    for name, value in of_partition.items():
        setattr(partition, name, value)
    return BackupReport([TopicReport("orders", "/backups/orders", partitions=[partition])])


def test_b14_a_run_that_found_records_lost_is_not_whole_and_neither_are_runs_without_an_end() -> (
    None
):
    assert report(missing={"control": 3, "compaction": 2}).whole
    lost = report(lost=[Gap(2, 5, GapReason.LOST)])
    followed = Followed()
    followed.add(report())
    assert followed.whole
    followed.add(lost)
    followed.add(report())
    assert (lost.whole, followed.whole) == (False, False)


@pytest.mark.parametrize(
    "field",
    [
        {"away": True},
        {"groups_not_read": ("billing",)},
        {"error": "full"},
        {"other_log": True},
        {"damages": ["a"]},
    ],
)
def test_what_could_not_be_read_makes_a_run_partial(field: dict[str, object]) -> None:
    partial = report()
    for name, value in field.items():
        setattr(partial if name == "away" else partial.topics[0], name, value)
    assert not partial.whole
    assert not report(unproved=[Unproved(0, 5, "compacted meanwhile")]).whole


def test_s29_offsets_that_nobody_explains_make_a_run_partial() -> None:
    unexplained = report(missing={"unknown": 99})
    followed = Followed()
    followed.add(unexplained)
    assert (unexplained.whole, followed.whole) == (False, False)
