"""The name of a machine: made once, the same for all its processes, and different elsewhere."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from breakglass.services.checkpoint.machine import host_of, same_machine, this_machine
from breakglass.services.errors import StorageError


def test_a_machine_keeps_its_name_and_another_has_another(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    with ThreadPoolExecutor(8) as pool:
        names = set(pool.map(this_machine, [one] * 8))
    assert names == {this_machine(one)}
    assert not same_machine(this_machine(one), this_machine(other))
    assert [path.name for path in one.iterdir()] == ["machine"]


def test_a_machine_is_known_by_its_id_and_named_by_its_host() -> None:
    assert same_machine("0" * 32 + "@before", "0" * 32 + "@after")
    assert host_of("0" * 32 + "@db-7") == "db-7"


@pytest.mark.parametrize("content", [b"", b"db-7", b"\xff" * 40, b"0" * 1000])
def test_a_file_that_holds_no_name_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "machine").write_bytes(content)
    with pytest.raises(StorageError, match=r"remove it|check its rights"):
        this_machine(tmp_path)
