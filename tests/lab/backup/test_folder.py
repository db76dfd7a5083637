"""A folder that may not be written any more, or is gone, while records are copied into it."""

import shutil

from breakglass.services.lab.cluster import Cluster
from breakglass.services.topic_backup.verification import verify_files
from tests.lab.backup.backups import BackUp, once
from tests.lab.backup.independent import committed, delivered, stored
from tests.lab.backup.producing import make, numbered, produce
from tests.lab.backup.restores import Restore
from tests.lab.backup.streaming import following


def test_a_folder_that_is_gone_midway_leaves_the_last_commit(
    whole_broker: Cluster, back_up: BackUp, restore: Restore, topic: str
) -> None:
    """As when its file system is unmounted: it says so, and goes on once it is back."""
    make(whole_broker, topic)
    produce(whole_broker, topic, numbered(10))
    back_up.topic(topic)
    produce(whole_broker, topic, numbered(10))
    away = back_up.root.with_name("away")

    def unmount() -> None:
        back_up.root.rename(away)
        back_up.root.mkdir()

    (report,) = back_up(topic, tell=once(unmount)).topics
    assert "No such file or directory; check the path" in report.error
    assert list(back_up.root.iterdir()) == []
    back_up.root.rmdir()
    away.rename(back_up.root)
    truth = delivered(whole_broker, topic, 0)
    assert committed(back_up.root / topic, 0) == truth[:10]
    assert verify_files(back_up.folder(topic)).whole
    assert restore.topic(topic, f"{topic}-back").records == 10
    assert back_up.topic(topic).partitions[0].records == 10
    assert stored(back_up.root / topic, 0) == truth


def test_a_stream_whose_folder_is_gone_begins_no_other_backup(
    whole_broker: Cluster, back_up: BackUp, topic: str
) -> None:
    make(whole_broker, topic)
    produce(whole_broker, topic, numbered(10))
    away = back_up.root.with_name("away")
    with following(back_up, topic, every=0.5) as followed:
        back_up.root.rename(away)
        back_up.root.mkdir()
        produce(whole_broker, topic, numbered(10))
        followed.await_true(lambda: "is the disk mounted" in str(followed.reports[-1].topics))
        assert list(back_up.root.rglob("*_records")) == []
        shutil.rmtree(back_up.root)
        away.rename(back_up.root)
        followed.await_end(topic, 20)
    assert stored(back_up.root / topic, 0) == delivered(whole_broker, topic, 0)
