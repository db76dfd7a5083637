"""What is written has the rights of what it holds, whatever the umask."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.errors import UsageError
from breakglass.services.pipeline.java import log_file, logging_option
from breakglass.services.recovery.plan.document import Plan, _write_new, _write_over
from breakglass.services.recovery.plan.partition_file import write_elections
from breakglass.services.rights import VARIABLE, folder_mode
from breakglass.services.topic_backup import group_history
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.manifest import TopicIdentity
from breakglass.services.topic_backup.store.form import StoredForm
from breakglass.services.topic_backup.store.store import LocalStore
from breakglass.services.topic_backup.topic_writer import TopicWriter
from tests.unit.checkpoint.store.stores import completed, ticking
from tests.unit.metastore.test_live_backup import back_up
from tests.unit.topic_backup.shapes import run


@contextmanager
def umask(mask: int) -> Iterator[None]:
    """The umask of this process, as *mask* within."""
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def write_everything(root: Path) -> None:
    """Write a file of every kind below *root*."""
    backups = root / "deep" / "backups"
    with TopicWriter(backups, TopicIdentity("orders")) as writer:
        for record in run(0, 5):
            writer.partition(0).append(record)
        writer.commit()
    group_history.update(LocalFolder(backups / "orders"), {0: {"g": 1}})
    part = LocalFolder(root / "deep").begin("part")
    part.write(memoryview(b"x"))
    part.close()
    packed = LocalStore(root / "packed").folder("orders", StoredForm(compressed=True))
    packed.replace("breakglass_groups_1795280464891.json", [b"{}"])
    completed(BackupStore(str(root / "checkpoints"), ticking()), 1)
    _write_new(Plan(entries=()), root / "plan.json")
    _write_over(Plan(entries=()), root / "plan.json")
    write_elections([], root / "elections.json")
    logging_option(root / "state" / "spark" / "one.log")
    back_up(root / "metastore", [])


def written(root: Path, mask: int) -> dict[str, int]:
    """The rights of everything that is written below *root* under the umask *mask*, by name."""
    root.mkdir(mode=0o755)
    with umask(mask):
        write_everything(root)
    return {
        str(path.relative_to(root)): stat.S_IMODE(path.stat().st_mode) for path in root.rglob("*")
    }


@pytest.fixture(autouse=True)
def no_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077], ids="{:03o}".format)
def test_what_is_written_is_for_its_owner_alone(tmp_path: Path, mask: int) -> None:
    found = written(tmp_path / "root", mask)
    assert len(found) > 20
    wrong = {name: oct(mode) for name, mode in found.items() if mode not in (0o700, 0o600)}
    assert wrong == {}
    assert found["plan.json"] == 0o600
    assert found["deep/backups/orders"] == 0o700


@pytest.mark.parametrize("mask", [0o000, 0o077], ids="{:03o}".format)
def test_backups_have_the_rights_that_the_environment_asks_for(
    tmp_path: Path, mask: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "0750")
    found = written(tmp_path / "root", mask)
    assert found["deep/backups/orders"] == 0o750
    assert found["deep/backups/orders/breakglass_manifest.json"] == 0o640
    assert found["deep/part"] == 0o640


def test_a_folder_that_is_there_keeps_its_rights(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o775)
    LocalFolder.create(shared / "orders")
    assert stat.S_IMODE(shared.stat().st_mode) == 0o775


def test_each_run_of_spark_has_a_log_of_its_own() -> None:
    assert log_file().stem.endswith(f"-{os.getpid()}")


@pytest.mark.parametrize("mode", ["", "rwx", "0077", "99", "0600"])
def test_rights_that_keep_the_owner_out_are_refused(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, mode)
    with pytest.raises(UsageError):
        folder_mode()
