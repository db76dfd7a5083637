"""The terminal that benchmarks press keys on: what is painted, when, and by what key."""

from __future__ import annotations

import sys
import time

import pytest

from benchmarks._measure import Program
from benchmarks._terminal import Terminal
from tests.kit.waiting import within

ECHO = """
import sys, termios, time, tty
tty.setraw(0)
def paint(line, text):
    sys.stdout.write(f"\\x1b[{line};1H{text}")
    sys.stdout.flush()
paint(5, "ready")
while key := sys.stdin.read(1):
    if key == "s":
        paint(5, "s")
        time.sleep(0.1)
        paint(6, "slowly")
    elif key == "a":
        paint(1, "age")
    elif key == "b":
        held = b"x" * 60_000_000
        paint(5, "big")
    elif key == "q":
        break
    else:
        paint(5, key)
"""


def echoing() -> Terminal:
    return Terminal(Program("echo", [sys.executable, "-c", ECHO]))


def ready(text: str) -> bool:
    return "ready" in text


def test_the_first_frame_is_timed_from_exec() -> None:
    with echoing() as terminal:
        came = terminal.wait_until(ready)
        assert terminal.began < came < time.perf_counter()


def test_a_key_is_timed_to_the_last_byte_it_paints() -> None:
    with echoing() as terminal:
        terminal.wait_until(ready)
        quick, slow = terminal.painted("x"), terminal.painted("s")
        assert "slowly" in terminal.text
    assert quick < within(0.1)
    assert 0.1 <= slow < within(0.3)


def test_what_changes_in_the_status_alone_is_none_of_the_keys_doing() -> None:
    with echoing() as terminal:
        terminal.wait_until(ready)
        with pytest.raises(RuntimeError, match="paints nothing for 'a'"):
            terminal.painted("a", patience=0.2)


def test_a_screen_that_never_comes_is_told_with_what_came_instead() -> None:
    with echoing() as terminal, pytest.raises(RuntimeError, match=r"never showed.*\n+ready"):
        terminal.wait_until(lambda text: "no such" in text, patience=0.3)


def test_a_program_that_ends_by_itself_is_told() -> None:
    with echoing() as terminal:
        terminal.wait_until(ready)
        terminal.press("q")
        with pytest.raises(RuntimeError, match="ended by itself"):
            terminal.watch(10.0)


def test_memory_and_processor_time_are_those_of_the_program() -> None:
    with echoing() as terminal:
        terminal.wait_until(ready)
        before, spent = terminal.memory(), terminal.cpu()
        terminal.painted("b")
        after = terminal.memory()
        assert 55 < after.now - before.now < 70
        assert after.peak >= after.now
        assert 0 <= spent <= terminal.cpu() < 5
