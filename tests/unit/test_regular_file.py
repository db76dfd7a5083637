"""What may be where a command is to write a file, and what happens to it."""

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from socket import AF_UNIX, socket

import pytest

from breakglass.console.exporter import replace_file
from breakglass.services.bundle.archive import write_archive
from breakglass.services.errors import BreakglassError, StorageError
from breakglass.services.metastore.settings import private_append, private_folder
from breakglass.services.recovery.plan.document import write_plan
from breakglass.services.recovery.plan.partition_file import write_elections
from breakglass.services.recovery.timeline.account import save_timeline
from breakglass.services.regular_file import replace_regular
from breakglass.services.rights import make_folders
from breakglass.services.topic_backup.folder import LocalAppendFile, LocalFolder
from breakglass.services.topic_backup.store.blobs import LocalBlobs
from tests.unit.recovery.plans import SAFE, planned

WRITERS: dict[str, Callable[[Path], object]] = {
    "exporter --out": lambda path: replace_file(path, b"new"),
    "plan make --out": lambda path: write_plan(planned(SAFE), path),
    "plan set": lambda path: write_plan(planned(SAFE), path, replace=True),
    "unclean-recovery": lambda path: write_elections((), path),
    "capture --out": lambda path: write_archive(path, b"{}", iter(())),
    "backup run": lambda path: LocalAppendFile(path, 0),
    "metastore backup": lambda path: private_append(path, 0),
    "journal": lambda path: save_timeline("new", path.parent, path.name, ""),
}


def _device(path: Path) -> None:
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("only root makes a device")


def _socket(path: Path) -> None:
    with socket(AF_UNIX) as bound:
        bound.bind(str(path))


KINDS: dict[str, Callable[[Path], object]] = {
    "device": _device,
    "fifo": os.mkfifo,
    "socket": _socket,
    "folder": Path.mkdir,
    "link": lambda path: path.symlink_to("kept"),
    "link to nothing": lambda path: path.symlink_to("missing"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("writer", WRITERS)
def test_s07_what_is_no_regular_file_is_refused_and_stays(
    tmp_path: Path, writer: str, kind: str
) -> None:
    (tmp_path / "kept").write_text("kept")
    path = tmp_path / "out"
    KINDS[kind](path)
    before = path.lstat()
    with pytest.raises((BreakglassError, FileExistsError)):
        WRITERS[writer](path)
    assert os.path.samestat(path.lstat(), before)
    assert path.lstat().st_mode == before.st_mode
    assert (tmp_path / "kept").read_text() == "kept"
    assert sorted(os.listdir(tmp_path)) == ["kept", "out"]


def test_s07_a_folder_of_another_account_gets_no_backup_of_the_metastore(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o755)
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(StorageError):
        private_folder(tmp_path)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755


@pytest.mark.parametrize(
    "write",
    [
        lambda folder: make_folders(folder / "new"),
        lambda folder: LocalAppendFile(folder / "new", 0),
        lambda folder: LocalFolder(folder).replace("new", [b"new"]),
        lambda folder: LocalFolder(folder).remove("kept"),
        lambda folder: LocalBlobs(folder).remove(["kept"]),
        lambda folder: LocalBlobs(folder).create("new", b"new"),
        lambda folder: private_folder(folder),
    ],
    ids=["folder", "append", "replace", "remove", "delete", "create", "metastore"],
)
def test_s07_a_link_of_another_account_leads_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[Path], object]
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "kept").touch()
    (tmp_path / "store").symlink_to("elsewhere")
    if os.geteuid():
        monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    else:
        os.lchown(tmp_path / "store", 12_345, 12_345)
    with pytest.raises((OSError, StorageError)):
        write(tmp_path / "store")
    assert os.listdir(tmp_path / "elsewhere") == ["kept"]


def test_s07_a_link_that_is_put_there_while_a_file_is_written_is_replaced_and_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, kept = tmp_path / "out", tmp_path / "kept"
    kept.write_text("kept")
    monkeypatch.setattr(os, "fsync", lambda _: path.symlink_to(kept))
    replace_regular(path, b"new", 0o640)
    assert (path.is_symlink(), path.read_text(), kept.read_text()) == (False, "new", "kept")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_s07_a_file_that_others_put_beside_is_neither_written_nor_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "out"
    monkeypatch.setattr("breakglass.services.regular_file.token_hex", lambda _: "guessed")
    beside = tmp_path / ".out.guessed.new"
    beside.symlink_to("elsewhere")
    with pytest.raises(OSError) as refused:  # noqa: PT011 - by its number
        replace_regular(path, b"new", 0o600)
    assert refused.value.errno == errno.EEXIST
    assert beside.is_symlink()
    assert not path.exists()
