"""What is written has the rights of what it holds, whatever the umask: each in its own process."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from breakglass.services.rights import VARIABLE

WRITE = """
import os, sys
from pathlib import Path
os.umask(int(sys.argv[2], 8))
root = Path(sys.argv[1])
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.pipeline.gateway import log_file, logging_option
from breakglass.services.recovery.plan.partition_file import write_elections
from breakglass.services.recovery.plan.document import Plan
from breakglass.services.recovery.plan.file import _write_new, _write_over
from breakglass.services.topic_backup import group_history
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.manifest import TopicIdentity
from breakglass.services.topic_backup.store.form import StoredForm
from breakglass.services.topic_backup.store.store import LocalStore
from breakglass.services.topic_backup.topic_writer import TopicWriter
from tests.unit.checkpoint.store.stores import completed, ticking
from tests.unit.metastore.test_live_backup import back_up
from tests.unit.topic_backup.shapes import run
with TopicWriter(root / "deep" / "backups", TopicIdentity("orders")) as writer:
    for record in run(0, 5):
        writer.partition(0).append(record)
    writer.commit()
group_history.update(LocalFolder(root / "deep" / "backups" / "orders"), {0: {"g": 1}})
part = LocalFolder(root / "deep").begin("part")
part.write(memoryview(b"x"))
part.close()
packed = LocalStore(root / "packed").folder("orders", StoredForm(compressed=True))
packed.replace("breakglass_groups_1795280464891.json", [b"{}"])
completed(BackupStore(str(root / "checkpoints"), ticking()), 1)
_write_new(Plan(partitions=()), root / "plan.json")
_write_over(Plan(partitions=()), root / "plan.json")
write_elections([], root / "elections.json")
logging_option(root / "state" / "spark" / "one.log")
back_up(root / "metastore", [])
"""


def written(root: Path, umask: str, mode: str | None = None) -> dict[str, int]:
    """The rights of everything that was written, by name."""
    root.mkdir(mode=0o755)
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    if mode is not None:
        environment[VARIABLE] = mode
    subprocess.run([sys.executable, "-c", WRITE, str(root), umask], check=True, env=environment)
    return {
        str(path.relative_to(root)): stat.S_IMODE(path.stat().st_mode) for path in root.rglob("*")
    }


@pytest.mark.parametrize("umask", ["000", "022", "077"])
def test_what_is_written_is_for_its_owner_alone(tmp_path: Path, umask: str) -> None:
    found = written(tmp_path / "root", umask)
    assert len(found) > 20
    wrong = {name: oct(mode) for name, mode in found.items() if mode not in (0o700, 0o600)}
    assert wrong == {}
    assert found["plan.json"] == 0o600
    assert found["deep/backups/orders"] == 0o700


@pytest.mark.parametrize("umask", ["000", "077"])
def test_backups_have_other_rights_where_those_were_told(tmp_path: Path, umask: str) -> None:
    found = written(tmp_path / "root", umask, "0750")
    assert found["deep/backups/orders"] == 0o750
    assert found["deep/backups/orders/breakglass_manifest.json"] == 0o640
    assert found["deep/part"] == 0o640


def test_a_folder_that_is_there_keeps_its_rights(tmp_path: Path) -> None:
    from breakglass.services.topic_backup.folder import LocalFolder

    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o775)
    LocalFolder.create(shared / "orders")
    assert stat.S_IMODE(shared.stat().st_mode) == 0o775


def test_each_run_of_spark_has_a_log_of_its_own() -> None:
    code = "from breakglass.services.pipeline.gateway import log_file; print(log_file())"
    names = [
        subprocess.run(
            [sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, text=True
        ).stdout
        for _ in range(2)
    ]
    assert names[0] != names[1]


@pytest.mark.parametrize("mode", ["", "rwx", "0077", "99", "0600"])
def test_rights_that_keep_the_owner_out_are_refused(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from breakglass.services.errors import UsageError
    from breakglass.services.rights import folder_mode

    monkeypatch.setenv(VARIABLE, mode)
    with pytest.raises(UsageError, match="0750"):
        folder_mode()
