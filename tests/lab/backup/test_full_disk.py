"""A disk that runs full: a sentence says so, and what was committed is whole and goes on."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.produce import Pattern
from breakglass.services.lab.produce import produce as produce_many
from breakglass.services.topic_backup.verification import verify_files
from tests.lab.backup.backups import BackUp
from tests.lab.backup.producing import make, numbered, produce


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MB at the place of the backup."""
    place = tmp_path / "backup"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "breakglass-test", str(place)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("this user may not mount a file system")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk_leaves_the_last_commit(
    whole_broker: Cluster, back_up: BackUp, small_disk: Path, topic: str
) -> None:
    make(whole_broker, topic)
    produce(whole_broker, topic, numbered(10))
    back_up.topic(topic)
    produce_many(whole_broker, topic, 0, 8_000, pattern=Pattern(value_bytes=1000))
    (report,) = back_up(topic).topics
    assert "No space left on device; free space" in report.error
    assert [record.offset for record in back_up.records(topic)] == list(range(10))
    assert verify_files(back_up.folder(topic)).whole
    subprocess.run(["mount", "-o", "remount,size=40m", str(small_disk)], check=True)
    assert back_up.topic(topic).partitions[0].records == 8_000
    assert len(back_up.records(topic)) == 8_010
