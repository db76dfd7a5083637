"""Runs `breakglass` in this process, through its one way out."""

import io
import json
import os
from contextlib import redirect_stderr, redirect_stdout
from typing import Any, NamedTuple
from unittest.mock import patch

from typer.main import get_command

from breakglass.console import cli
from breakglass.console.exits import guarded


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

    @property
    def consent(self) -> str:
        """The phrase that a refusal names in its last line."""
        return self.said[-1].removeprefix("consent: ")


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
    with patch.dict(os.environ, asked):
        ended = breakglass()
    assert ended.err == ""
    return ended.out.split()
