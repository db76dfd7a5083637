"""A process that a test drops is named with the test that started it."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import warnings


def dropped(caught: list[warnings.WarningMessage]) -> list[str]:
    return [str(message.message) for message in caught if message.category is ResourceWarning]


def test_a_process_that_is_dropped_before_it_was_waited_for_is_named() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        subprocess.Popen(["true"])
        gc.collect()

    (said,) = dropped(caught)
    assert "dropped before it was waited for: ['true']" in said
    assert "tests/unit/test_processes.py:" in said
    assert "test_a_process_that_is_dropped_before_it_was_waited_for_is_named" in said


async def test_a_process_of_a_loop_is_named_too() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        process = await asyncio.create_subprocess_exec("true")
        started_by = process._transport._proc.started_by  # type: ignore[attr-defined]
        await process.wait()

    assert "tests/unit/test_processes.py:" in started_by
    assert dropped(caught) == []


def test_a_process_that_was_waited_for_is_nobodys_concern() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        subprocess.run(["true"], check=True)
        with subprocess.Popen(["true"]):
            pass
        subprocess.Popen(["true"]).wait()
        gc.collect()

    assert dropped(caught) == []
