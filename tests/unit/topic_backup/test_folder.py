"""The local folder: what is durable, what is atomic, and what its errors say."""

import errno
import os
from pathlib import Path

import pytest

from breakglass.services.errors import AlreadyRunning, StorageError
from breakglass.services.topic_backup.folder import LocalFolder


@pytest.fixture
def folder(tmp_path: Path) -> LocalFolder:
    return LocalFolder.create(tmp_path / "backup" / "topic")


def test_an_fsync_that_failed_is_never_believed_again(
    folder: LocalFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = folder.append("f", 0)
    file.write(b"x")
    with monkeypatch.context() as patch:

        def fsync(descriptor: int) -> None:
            raise OSError(errno.EIO, "Input/output error")

        patch.setattr(os, "fsync", fsync)
        with pytest.raises(StorageError):
            file.sync()
    with pytest.raises(StorageError):
        file.sync()
    file.close()


def test_a_replaced_file_is_there_wholly_or_not_at_all(folder: LocalFolder) -> None:
    folder.replace("f", [b"old"])

    def breaks_off() -> list[bytes]:
        raise StorageError("the source is gone")

    with pytest.raises(StorageError):
        folder.replace("f", (chunk for number in (1, 2) for chunk in breaks_off()))
    assert folder.names() == ["f"]
    assert (folder.path / "f").read_bytes() == b"old"


def test_a_folder_has_one_writer(folder: LocalFolder) -> None:
    with folder.lock(), pytest.raises(AlreadyRunning), LocalFolder(folder.path).lock():
        pass
    with LocalFolder(folder.path).lock():
        pass


def test_leftovers_of_a_killed_writer_are_removed_and_nothing_else(folder: LocalFolder) -> None:
    for name in (".breakglass-0123.tmp", "f.tmp", ".breakglass-notes"):
        (folder.path / name).write_bytes(b"")
    folder.remove_leftovers()
    assert sorted(folder.names()) == [".breakglass-notes", "f.tmp"]
