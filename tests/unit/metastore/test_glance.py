"""The metastore's backups in a line: how many commands, whether they are followed, alarms."""

from pathlib import Path

import pytest

from breakglass.services.errors import StorageError
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.lag import Behind
from breakglass.services.metastore.glance import (
    MetastoreGlance,
    alarm_file,
    read_status,
    status_file,
    write_status,
)
from breakglass.services.metastore.live_backup import open_backup
from tests.unit.metastore.generating import Generator
from tests.unit.metastore.test_live_backup import ORIGIN, TOPIC, back_up

RECORDS = Generator(31).records(12)


def glance(folder: Path) -> tuple[str, object, str]:
    told = MetastoreGlance(folder).glance(Deadline.after(5))
    return told.state, told.newest_ms, told.trouble


def test_one_that_is_being_written_is_followed_and_says_since_when_it_is_behind(
    tmp_path: Path,
) -> None:
    behind = Behind(1_000, "b1 is down")
    with open_backup(tmp_path, ORIGIN, lambda _: None) as backup:
        backup.take(RECORDS)
        for status in (behind, None, behind):
            write_status(tmp_path, TOPIC, status)
            (seen,) = MetastoreGlance(tmp_path).look()
            assert (seen.followed, seen.behind) == (True, status)
            assert ("b1 is down" in glance(tmp_path)[2]) == (status is not None)
    (seen,) = MetastoreGlance(tmp_path).look()
    assert (seen.followed, seen.behind) == (False, None)


def test_a_status_keeps_its_length_so_that_a_full_disk_takes_it(tmp_path: Path) -> None:
    write_status(tmp_path, TOPIC, None)
    before = status_file(tmp_path, TOPIC).stat()
    write_status(tmp_path, TOPIC, Behind(1_000, "x" * 10_000))
    after = status_file(tmp_path, TOPIC).stat()
    assert (after.st_ino, after.st_size) == (before.st_ino, before.st_size)
    assert read_status(tmp_path, TOPIC) is not None


@pytest.mark.parametrize("noise", [b"", b"\n", b"[]\n", b'{"at_ms":"x"}\n', b"\xff{\n"])
def test_an_alarm_or_a_status_that_cannot_be_read_is_none(tmp_path: Path, noise: bytes) -> None:
    with pytest.raises(StorageError):
        glance(tmp_path / "gone")
    assert glance(tmp_path) == (f"none in {tmp_path}", None, "")
    back_up(tmp_path, RECORDS)
    status_file(tmp_path, TOPIC).write_bytes(noise)
    assert read_status(tmp_path, TOPIC) is None
    alarm_file(tmp_path, TOPIC).write_bytes(noise)
    assert glance(tmp_path)[2] == ""
