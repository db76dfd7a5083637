"""What an operator types to name a backup."""

from pathlib import Path

import pytest

from breakglass.services.errors import UsageError
from breakglass.services.topic_backup.address import indexes_at, partition_of
from breakglass.services.topic_backup.store.store import ObjectStore, open_store
from breakglass.services.topic_backup.topic_writer import TopicWriter
from tests.unit.topic_backup.backups import ORDERS, back_up
from tests.unit.topic_backup.shapes import plain, run


def test_other_urls_are_those_of_stores_without_credentials() -> None:
    assert open_store("s3://bucket/prefix/") == ObjectStore("s3://bucket/prefix")
    for url in ("file://elsewhere/b", "s3://AKIA:hidden@bucket/prefix"):
        with pytest.raises(UsageError) as refused:
            open_store(url)
        assert "hidden" not in str(refused.value)


def test_a_partition_that_was_never_committed_holds_nothing(tmp_path: Path) -> None:
    topic = back_up(tmp_path, run(0, 3))
    with TopicWriter(tmp_path, ORDERS) as writer:
        writer.partition(1).append(plain(0))
        writer.partition(1).sync()
    assert list(partition_of((topic / "0").as_uri()).records()) == run(0, 3)
    reader = partition_of(f"{topic}/1")
    assert list(reader.records()) == []
    assert [out.reason for out in reader.left_out] == ["not committed"]


@pytest.mark.parametrize("address", ["orders", "orders/x", "orders/1", "payments/0", "a b/0"])
def test_what_is_not_there_is_told(tmp_path: Path, address: str) -> None:
    back_up(tmp_path, run(0, 3))
    with pytest.raises(UsageError):
        partition_of(f"{tmp_path}/{address}")


def test_a_topic_or_one_partition_is_reindexed(tmp_path: Path) -> None:
    topic = back_up(tmp_path, run(0, 3))
    assert [reindexed.entries for reindexed in indexes_at(str(topic)).rebuild()] == [3]
    assert [reindexed.entries for reindexed in indexes_at(f"{topic}/0").rebuild()] == [3]
    with pytest.raises(UsageError):
        indexes_at(f"{topic}/7")
