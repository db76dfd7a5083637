"""A store that is not there, and one that is empty."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.checkpoint.store_address import require_no_file, require_there
from breakglass.services.checkpoint.watch import CheckpointWatch
from breakglass.services.errors import UsageError
from breakglass.services.model import Unknown
from tests.unit.checkpoint.store.stores import completed


def test_an_empty_folder_is_a_store(tmp_path: Path) -> None:
    require_there(str(tmp_path))
    (seen,) = CheckpointWatch((str(tmp_path),)).look()
    assert seen.held == ()


def test_a_folder_that_there_is_not_is_told_from_an_empty_one(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    with pytest.raises(UsageError, match=r"There is no folder .*missing: check the address"):
        require_there(missing)
    (seen,) = CheckpointWatch((missing,)).look()
    assert isinstance(seen.held, Unknown)
    assert "There is no folder" in seen.held.reason


def test_a_file_is_no_store(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for require in (require_there, require_no_file):
        with pytest.raises(UsageError, match="is a file: name the folder"):
            require(str(file))


def test_an_object_store_with_nothing_below_the_address_is_told_so() -> None:
    url = f"memory://{uuid4().hex}"
    with pytest.raises(UsageError, match="There is nothing at"):
        require_there(url)
    completed(BackupStore(url), 1)
    require_there(url)
