"""What commands are tested on, and the golden transcripts of what they print."""

import pwd
import re
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from tests.kit.program import Ended
from tests.unit.console.fakes import Fakes, fakes

Golden = Callable[[Ended], None]
VARYING = {
    r"\d{8}T\d{6}\.\d{6}Z": "20260102T030405.678901Z",
    r"20(?!23)\d\d-\d\d-\d\d \d\d:\d\d:\d\dZ": "2026-01-02 03:04:05Z",
    r"127\.0\.0\.1:\d{4,}": "127.0.0.1:9092",
    r"\b[a-z]{5}-[a-z]{5}-[a-z]{5}\b": "lusab-babad-gutih",
    r"\b[0-9a-f]{64}\b": "0" * 64,
}
"""What is another one each time, and what stands for it."""


class Transcript(SingleFileSnapshotExtension):
    _write_mode = WriteMode.TEXT
    file_extension = "txt"


@pytest.fixture
def broken() -> Iterator[Fakes]:
    with fakes() as made:
        yield made


@pytest.fixture(autouse=True)
def same_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test is run by one operator on one machine, whose names have one width."""
    account = SimpleNamespace(pw_name="ada", pw_dir=str(Path.home()))
    monkeypatch.setattr(pwd, "getpwuid", lambda _: account)
    monkeypatch.setattr(socket, "gethostname", lambda: "night")


@pytest.fixture
def golden(snapshot: SnapshotAssertion, tmp_path: Path) -> Golden:
    """Compares how a command ended with the transcript of this test, which is all it prints."""
    kept = snapshot.use_extension(Transcript)

    def compare(ended: Ended) -> None:
        text = f"{ended.err}--- stdout\n{ended.out}--- exit {ended.code}\n"
        text = text.replace(str(tmp_path), "FOLDER")
        for pattern, stands_for in VARYING.items():
            text = re.sub(pattern, stands_for, text)
        assert text == kept

    return compare
