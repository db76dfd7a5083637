"""What reaches a terminal or a pipe."""

import io
import json
import os
import pty
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakglass.console.output import (
    ENTRIES_AT_ONCE,
    Column,
    print_json,
    print_json_stream,
    print_table,
    say,
)
from breakglass.services.model import Role, TopicPartition, Unknown
from breakglass.services.words.inert import inert

HOSTILE = "orders\x1b[2J\u202egnp\n[red]spoof[/red]\r\ud800\u200b"
TEXT = st.text(alphabet=st.characters(), max_size=60)
END = "\x1e"
"""Written after all else to a terminal; no output has it, for it is a control character."""


@contextmanager
def terminal_as_stdout(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Make stdout a terminal of 80 columns; the list holds what it showed, after the block."""
    primary, secondary = pty.openpty()
    shown_there: list[str] = []
    with (
        os.fdopen(primary, "rb", buffering=0) as reader,
        os.fdopen(secondary, "w", encoding="utf-8", errors="backslashreplace") as stdout,
        monkeypatch.context() as patch,
    ):
        patch.setattr(sys, "stdout", stdout)
        patch.setenv("COLUMNS", "80")
        patch.setenv("TERM", "xterm")
        yield shown_there
        stdout.write(END)
        stdout.flush()
        # A terminal hands on what was written in pieces of its own.
        read = b""
        while not read.endswith(END.encode()):
            read += reader.read(65536)
        shown_there.append(read.decode("utf-8").removesuffix(END))


def test_talk_goes_to_stderr_on_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    say(HOSTILE)
    assert capsys.readouterr() == ("", inert(HOSTILE) + "\n")
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stderr", closed)
    say("into a closed stderr")


@given(st.dictionaries(TEXT, TEXT))
def test_json_is_ascii_on_one_line_and_keeps_every_character(document: dict[str, str]) -> None:
    text = printed_json(document)
    assert text.isascii()
    assert text.removesuffix("\n").isprintable()
    assert json.loads(text) == document


def printed_json(document: object) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", io.StringIO())
        print_json(document)
        assert isinstance(sys.stdout, io.StringIO)
        return sys.stdout.getvalue()


@dataclass(frozen=True)
class Row:
    partition: TopicPartition
    log_end: int | Unknown
    role: Role


def test_json_has_a_form_for_every_value_of_ours_and_for_no_other() -> None:
    document = {
        "rows": [Row(TopicPartition("orders", 3), Unknown("b3 is silent"), Role.STALE)],
        "topic_id": UUID(int=7),
        "file": Path("plan.json"),
        "brokers": {3, 1, 2},
    }
    partition = {"topic": "orders", "partition": 3}
    row = {"partition": partition, "log_end": {"unknown": "b3 is silent"}, "role": "stale"}
    assert json.loads(printed_json(document)) == {
        "rows": [row],
        "topic_id": "00000000-0000-0000-0000-000000000007",
        "file": "plan.json",
        "brokers": [1, 2, 3],
    }
    with pytest.raises(TypeError):
        printed_json({"key": b"\x00"})


def test_a_terminal_shows_hostile_text_and_does_nothing_else_and_has_json_indented(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with terminal_as_stdout(monkeypatch) as screen:
        print_table([Column("[b]Topic[/b]")], [[HOSTILE], [":warning:"]])
        print_json({"a": 1})
    for text in ("[b]Topic[/b]", inert(HOSTILE), ":warning:"):
        assert text in screen[0]
    assert ("\x1b[2J" in screen[0], "\u202e" in screen[0]) == (False, False)
    assert screen[0].replace("\r", "").endswith('{\n  "a": 1\n}\n')


@pytest.mark.parametrize("count", [0, 1, ENTRIES_AT_ONCE, ENTRIES_AT_ONCE + 1])
def test_a_streamed_document_is_byte_for_byte_the_one_printed_whole(
    count: int, capsys: pytest.CaptureFixture[str]
) -> None:
    head = {"schema": 1, "silent": {}, "missing": [], "quorum": Unknown("no answer")}
    entries = [
        {"name": HOSTILE, "end": Unknown(HOSTILE), "held": [number]} for number in range(count)
    ]
    print_json_stream(head, "partitions", iter(entries))
    streamed = capsys.readouterr().out
    print_json({**head, "partitions": entries})
    assert streamed == capsys.readouterr().out
