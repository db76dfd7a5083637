"""Where a key is read from, and that it is never shown."""

from __future__ import annotations

import base64
import json
import pickle
from pathlib import Path

import pytest

from breakglass.services.errors import UsageError
from breakglass.services.topic_backup.store.key import KEY_BYTES, Key, read_key

CONTENT = bytes(range(KEY_BYTES))


@pytest.mark.parametrize(
    "written",
    [
        CONTENT,
        CONTENT.hex().encode() + b"\n",
        CONTENT.hex().upper().encode(),
        base64.b64encode(CONTENT),
    ],
)
def test_a_key_is_read_as_it_is_or_in_hex_or_in_base64(written: bytes, tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(written)
    assert read_key(str(tmp_path / "key")).id == Key(CONTENT).id


def test_a_key_is_read_from_the_environment_by_its_name() -> None:
    assert read_key("env:BACKUP_KEY", {"BACKUP_KEY": CONTENT.hex()}).id == Key(CONTENT).id


@pytest.mark.parametrize("written", [b"", b"password", CONTENT[1:], b"zz" * 32])
def test_anything_else_is_refused_and_not_repeated(written: bytes, tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(written)
    with pytest.raises(UsageError, match="holds no key: put there 32 bytes") as refused:
        read_key(str(tmp_path / "key"))
    assert not written or written.decode(errors="replace") not in str(refused.value)


def test_a_variable_or_file_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the environment has no BACKUP_KEY"):
        read_key("env:BACKUP_KEY", {})
    with pytest.raises(UsageError, match="is no file"):
        read_key(str(tmp_path / "absent"))


def test_a_key_is_not_shown_and_goes_to_no_json() -> None:
    key = Key(CONTENT)
    assert f"{key} {key!r}" == "Key(***) Key(***)"
    with pytest.raises(TypeError):
        json.dumps({"key": key})


def test_a_key_reaches_another_process() -> None:
    assert pickle.loads(pickle.dumps(Key(CONTENT))).id == Key(CONTENT).id  # noqa: S301
