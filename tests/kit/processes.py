"""Says of a process that was dropped before it was waited for which test started it, and where.

Python's own warning comes when the object is collected, in whatever test runs then, and names a
number alone. As every warning, this one fails the test in which it comes.
"""

import os
import subprocess
import sys
import warnings
from typing import Any

_make, _drop = subprocess.Popen.__init__, subprocess.Popen.__del__


def name_dropped_processes() -> None:
    """Let every process know from now on who started it."""
    subprocess.Popen.__init__ = _made  # type: ignore[method-assign, assignment]
    subprocess.Popen.__del__ = _dropped  # type: ignore[method-assign]


def _made(process: Any, *given: Any, **named: Any) -> None:
    process.started_by = f"{_place()} in {os.environ.get('PYTEST_CURRENT_TEST', 'no test')}"
    _make(process, *given, **named)


def _dropped(process: Any, **given: Any) -> None:
    if getattr(process, "_child_created", False) and process.returncode is None:
        try:
            warnings.warn(
                f"process {process.pid} was dropped before it was waited for: {process.args}, "
                f"started at {process.started_by}",
                ResourceWarning,
                stacklevel=2,
                source=process,
            )
        finally:
            # Its own warning would say less; what has ended is taken off the system all the same.
            process._internal_poll(_deadstate=sys.maxsize)
            if process.returncode is None:
                subprocess._active.append(process)  # type: ignore[attr-defined]
        return
    _drop(process, **given)


def _place() -> str:
    """The line of ours that starts it."""
    frame = sys._getframe(2)
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith(
        ("asyncio.", "subprocess", __name__)
    ):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
