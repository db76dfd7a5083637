"""How often a backup of the metastore waits for the disk."""

import os
from pathlib import Path

import pytest

from breakglass.services.metastore.lines import CommandRecord
from tests.unit.metastore.generating import Generator
from tests.unit.metastore.test_live_backup import back_up


def syncs_of(
    records: list[CommandRecord], group: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> int:
    """How many fsyncs a backup of *records*, taken *group* by *group*, needs."""
    done: list[int] = []
    with monkeypatch.context() as patched:
        fsync = os.fsync

        def counted(descriptor: int) -> None:
            done.append(descriptor)
            fsync(descriptor)

        patched.setattr(os, "fsync", counted)
        back_up(folder, records, group=group)
    return len(done)


@pytest.mark.parametrize("group", [100, 400])
def test_m12_commands_that_come_together_are_one_sync(
    group: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sync for each of them would be a thousand times slower."""
    records = Generator(3).records(2 * group)
    once = syncs_of(records, len(records), tmp_path / "once", monkeypatch)
    twice = syncs_of(records, group, tmp_path / "twice", monkeypatch)
    assert once < 10
    assert twice - once <= 2
