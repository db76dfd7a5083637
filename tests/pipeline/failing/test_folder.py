"""A folder that may not be written any more, or is gone, while records are copied into it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.produce import Pattern
from breakglass.services.lab.produce import produce as produce_many
from breakglass.services.topic_backup.verification import verify_files
from tests.pipeline.backups import BackUp
from tests.pipeline.failing.test_commands import DEADLINE_SECONDS, finish, last_line, started
from tests.pipeline.independent import committed, delivered, stored
from tests.pipeline.producing import make, numbered, produce
from tests.pipeline.restores import Restore
from tests.pipeline.test_rules import once
from tests.pipeline.test_stream import following

AS_ANYBODY = ["setpriv", "--bounding-set=-dac_override", "--inh-caps=-dac_override"]
"""Root may write everywhere, unless this is taken from it."""


@pytest.mark.slow
def test_a_folder_that_is_gone_midway_leaves_the_last_commit(
    broker: Cluster, back_up: BackUp, restore: Restore, topic: str
) -> None:
    """As when its file system is unmounted: it says so, and goes on once it is back."""
    make(broker, topic)
    produce(broker, topic, numbered(10))
    back_up.topic(topic)
    produce(broker, topic, numbered(10))
    away = back_up.root.with_name("away")

    def unmount() -> None:
        back_up.root.rename(away)
        back_up.root.mkdir()

    (report,) = back_up(topic, tell=once(unmount)).topics
    assert "No such file or directory; check the path" in report.error
    assert list(back_up.root.iterdir()) == []
    back_up.root.rmdir()
    away.rename(back_up.root)
    truth = delivered(broker, topic, 0)
    assert committed(back_up.root / topic, 0) == truth[:10]
    assert verify_files(back_up.folder(topic)).whole
    assert restore.topic(topic, f"{topic}-back").records == 10
    assert back_up.topic(topic).partitions[0].records == 10
    assert stored(back_up.root / topic, 0) == truth


@pytest.mark.slow
def test_a_stream_whose_folder_is_gone_begins_no_other_backup(
    broker: Cluster, back_up: BackUp, topic: str
) -> None:
    make(broker, topic)
    produce(broker, topic, numbered(10))
    away = back_up.root.with_name("away")
    with following(back_up, topic, every=0.5) as followed:
        back_up.root.rename(away)
        back_up.root.mkdir()
        produce(broker, topic, numbered(10))
        followed.await_true(lambda: "is the disk mounted" in str(followed.reports[-1].topics))
        assert list(back_up.root.rglob("*_records")) == []
        shutil.rmtree(back_up.root)
        away.rename(back_up.root)
        followed.await_end(topic, 20)
    assert stored(back_up.root / topic, 0) == delivered(broker, topic, 0)


@pytest.mark.slow
@pytest.mark.timeout(3 * DEADLINE_SECONDS)
def test_a_folder_that_may_not_be_written_midway_leaves_the_last_commit(
    broker: Cluster, back_up: BackUp, topic: str
) -> None:
    make(broker, topic)
    produce(broker, topic, numbered(10))
    back_up.topic(topic)
    produce_many(broker, topic, 0, 30_000, pattern=Pattern(value_bytes=1000))
    folder: Path = back_up.root / topic
    words = ["run", "--topics", topic, "--store", str(back_up.root), "--json"]
    words += ["--max-segment-bytes", "1000000"]
    before = AS_ANYBODY if os.geteuid() == 0 else []
    with started(broker, *words, before=before) as process:
        while not list(folder.glob(".breakglass-*-records.tmp")):
            assert process.poll() is None, process.communicate()
        folder.chmod(0o555)
        out, _ = process.communicate(timeout=DEADLINE_SECONDS)
    folder.chmod(0o755)
    assert process.returncode == 1
    (told,) = last_line(out)["topics"]
    assert "Permission denied; check the owner and the permissions" in told["error"]
    truth = delivered(broker, topic, 0)
    assert committed(folder, 0) == truth[:10]
    assert verify_files(back_up.folder(topic)).whole
    code, _, err = finish(broker, *words)
    assert code == 0, err
    assert stored(folder, 0) == truth
    assert [path for path in folder.iterdir() if path.name.startswith(".")] == []
