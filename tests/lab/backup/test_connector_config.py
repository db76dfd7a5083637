"""The original's own example files back up from a broker and restore to it."""

from collections.abc import Mapping
from pathlib import Path

from breakglass.services.lab.cluster import Cluster
from tests.kit.running import ran
from tests.lab.backup.backups import BackUp
from tests.lab.backup.producing import (
    commit,
    committed_messages,
    committed_offset,
    delete,
    make,
    numbered,
    produce,
)
from tests.unit.topic_backup.test_connector import SINK, SOURCE

TOPIC, EMPTY = "backup-test-1partition", "backup-test-empty"
"""The topics of the example."""
GROUP = "readers-of-backup-test"
ONE_CORE = ("--master", "local[1]")


def example(file: Path, folder: Path, broker: Cluster) -> Path:
    """The original's example with two values changed: the backup's folder, and the broker."""
    text = file.read_text()
    for old, new in {
        "/tmp/kafka-backup/001_simple_1partition_test/": str(folder / "taken-over"),
        "localhost:9092": broker.bootstrap_servers,
    }.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    copy = folder / file.name
    copy.write_text(text)
    return copy


def files(store: Path) -> Mapping[str, bytes]:
    """Every file that the original knows."""
    found = store.rglob("*_partition_*")
    return {str(path.relative_to(store)): path.read_bytes() for path in found if path.is_file()}


def records(broker: Cluster) -> list[tuple[object, ...]]:
    return [
        (message.key(), message.value(), message.headers(), message.timestamp())
        for message in committed_messages(broker, TOPIC, 0)
    ]


def test_the_originals_own_examples_back_up_and_restore(
    whole_broker: Cluster, back_up: BackUp, tmp_path: Path
) -> None:
    for topic in (TOPIC, EMPTY):
        make(whole_broker, topic)
    produce(whole_broker, TOPIC, numbered(30))
    commit(whole_broker, TOPIC, GROUP, 11, 0)
    was = records(whole_broker)

    file = example(SINK, tmp_path, whole_broker)
    done = ran("backup", "run", "--connector-config", file, "--snapshot", *ONE_CORE)
    assert done.code == 0, done.err

    back_up(TOPIC, EMPTY, max_segment_bytes=10 * 1024**2)
    assert len(files(back_up.root)) == 8
    assert files(tmp_path / "taken-over") == files(back_up.root)

    for topic in (TOPIC, EMPTY):
        delete(whole_broker, topic)
    restore = ("backup", "restore", "--connector-config", example(SOURCE, tmp_path, whole_broker))
    asked = ran(*restore, "--write", *ONE_CORE)
    assert asked.code == 3, asked.err
    phrase = asked.consent
    back = ran(*restore, "--write", "--consent", phrase, *ONE_CORE)
    assert back.code == 0, back.err
    assert records(whole_broker) == was
    assert len(whole_broker.partitions(EMPTY)) == 1
    assert committed_offset(whole_broker, TOPIC, GROUP) == 11
