"""Runs `breakglass` in this process, through its one way out."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from typing import Any, NamedTuple

from typer.main import get_command

from breakglass.console import cli
from breakglass.console.exits import guarded
from tests.kit.waiting import DEADLINE_SECONDS


class Ended(NamedTuple):
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """What was printed on stdout, as JSON."""
        return json.loads(self.out)

    @property
    def said(self) -> list[str]:
        """The lines on stderr."""
        return self.err.splitlines()


def breakglass(*arguments: object) -> Ended:
    """Run the program with *arguments*; nobody is there to type a consent."""
    words = [str(argument) for argument in arguments]
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = guarded(lambda: get_command(cli.app).main(args=words, prog_name="breakglass"))
    return Ended(code, out.getvalue(), err.getvalue())


RUN = "from breakglass.console.cli import main; raise SystemExit(main())"


def offered(line: str) -> list[str]:
    """What bash is given for *line*, whose last word is the one to complete."""
    asked = {
        "_BREAKGLASS_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(line.count(" ")),
    }
    # As the installed program is called: by its name, which the variable's name is made from.
    run = f"import sys; sys.argv = ['breakglass']; {RUN}"
    done = subprocess.run(
        [sys.executable, "-c", run],
        env={**os.environ, **asked},
        capture_output=True,
        text=True,
        check=True,
        timeout=DEADLINE_SECONDS,
    )
    assert done.stderr == ""
    return done.stdout.split()
