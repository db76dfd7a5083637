"""How a program of ours ends: exit code, last words, and what never appears."""

import gc
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import typer

from breakglass.console.exits import guarded, run_app
from breakglass.services import errors


@pytest.fixture(autouse=True)
def garbage_collector() -> Iterator[None]:
    thresholds = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)


def raising(error: BaseException) -> Callable[[], None]:
    def run() -> None:
        raise error

    return run


def in_process(script: str, stdout: int = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
    """Run *script* in an interpreter of its own, whose stdout has no more than Latin letters."""
    return subprocess.run(
        [sys.executable, "-c", script],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONIOENCODING": "latin-1"},
    )


def test_every_error_of_ours_ends_as_its_inert_sentence_and_its_code(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = [errors.BreakglassError]
    for function in found:
        found += function.__subclasses__()
    for error in found:
        # Some take more than a sentence; what they share is that str() is one.
        made = error.__new__(error, "Broker \x1b[2J\u202e does not answer; start it.")
        if isinstance(made, errors.ConsentMissing):
            made.phrase, made.phrases = "orders-3 lose 50", ("orders-3 lose 50",)
        assert guarded(raising(made)) == error.exit_code, error
        printed = capsys.readouterr()
        first, *others = printed.err.splitlines()
        assert (printed.out, first) == ("", "Broker \\x1b[2J\\u202e does not answer; start it.")
        assert others == (["consent: orders-3 lose 50"] if hasattr(made, "phrase") else [])


@pytest.mark.parametrize(
    ("end", "code"),
    [
        (errors.ClusterError("No."), 1),
        (errors.MalformedInput("No."), 2),
        (errors.ReadOnly("No."), 3),
        (errors.OutcomeUnknown("No."), 4),
        (KeyboardInterrupt(), 130),
        *((SystemExit(given), code) for given, code in ((None, 0), (1, 1), (4, 4), ("gone", 1))),
    ],
    ids=repr,
)
def test_the_codes_are_those_that_scripts_rely_on(end: BaseException, code: int) -> None:
    assert guarded(raising(end)) == code
    assert guarded(lambda: None) == 0


SIGNALLED = """
import os, signal, sys, typer
from breakglass.console.exits import run_app
app = typer.Typer(add_completion=False)

@app.command()
def wait(number: int) -> None:
    os.kill(os.getpid(), number)
    print("went on")

for number, before in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGTERM, signal.SIG_DFL),
    (signal.SIGHUP, signal.SIG_DFL),
    (signal.SIGHUP, signal.SIG_IGN),
):
    signal.signal(number, before)
    sys.argv = ["test", str(int(number))]
    print(run_app(app, "test"))
"""


def test_every_signal_ends_a_command_with_130_but_a_lost_terminal_that_is_ignored() -> None:
    assert in_process(SIGNALLED).stdout.splitlines() == ["130", "130", "130", "went on", "0"]


def test_an_unexpected_error_is_named_and_leaves_its_traceback_in_a_file_of_the_user_alone(
    capsys: pytest.CaptureFixture[str], user_folders: Path
) -> None:
    assert guarded(raising(ZeroDivisionError("no records"))) == 1
    sentence, path = capsys.readouterr().err.splitlines()
    file = Path(path)
    assert "ZeroDivisionError: no records" in sentence
    assert file.is_relative_to(user_folders)
    assert file.stat().st_mode & 0o777 == 0o600
    assert "Traceback" in file.read_text()
    assert guarded(raising(BrokenPipeError(32, "b3 closed its end"))) == 1
    assert "b3 closed its end" in capsys.readouterr().err, "a pipe that is not stdout"
    shutil.rmtree(user_folders / "state")
    (user_folders / "state").write_text("a file where the folder should be")
    assert guarded(raising(ZeroDivisionError())) == 1
    assert "ZeroDivisionError" in capsys.readouterr().err


GUARDED = "import sys; from breakglass.console.exits import guarded; "
APP = (
    "import sys, typer; from breakglass.console.exits import run_app; "
    "app = typer.Typer(add_completion=False, rich_markup_mode=None)\n"
)


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_an_output_that_is_full_is_named_and_no_fault_of_the_program(unbuffered: str) -> None:
    script = APP + "app.command()(lambda: print('x'))\nsys.exit(run_app(app, 'p'))"
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode == 1
    assert "No space left" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_nothing_is_done_for_an_output_that_is_closed_and_no_file_takes_its_place() -> None:
    script = APP + (
        "app.command()(lambda: sys.exit(open('/dev/null').fileno()))\nsys.exit(run_app(app, 'p'))"
    )
    words = [sys.executable, "-c", script]
    closed = subprocess.run(["sh", "-c", 'exec "$@" >&-', "sh", *words], capture_output=True)
    assert (closed.returncode, closed.stderr.count(b"\n")) == (1, 1)
    hidden = subprocess.run(["sh", "-c", 'exec "$@" <&- 2>&-', "sh", *words], capture_output=True)
    assert hidden.returncode > 2


@pytest.mark.parametrize(
    "script",
    [
        GUARDED + "sys.exit(guarded(lambda: print('x' * 100_000)))",
        APP + "app.command()(lambda: print('x'))\nsys.exit(run_app(app, 'p'))",
    ],
    ids=["at once", "a command, when flushed"],
)
def test_a_reader_that_is_gone_ends_the_program_quietly(script: str) -> None:
    reader, stdout = os.pipe()
    os.close(reader)
    with os.fdopen(stdout):
        done = in_process(script, stdout)
    assert (done.returncode, done.stderr) == (1, "")


def test_text_that_the_encoding_lacks_is_escaped_and_bulk_is_not_searched_for_cycles() -> None:
    script = APP + (
        "import gc; seen = []; gc.callbacks.append(lambda when, _: seen.append(when))\n"
        "bulk = lambda: len([[one] for one in range(90_000)])\n"
        "app.command()(lambda: print('\\u6ce8', bulk(), len(seen)))\n"
        "sys.exit(run_app(app, 'p'))"
    )
    done = in_process(script)
    assert (done.returncode, done.stdout) == (0, "\\u6ce8 90000 0\n")


def test_a_wrong_option_is_a_usage_error_with_a_hint(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command()(lambda: None)
    monkeypatch.setattr(sys, "argv", ["kafka-unclean-recovery", "--nonsense"])
    assert run_app(app, "kafka-unclean-recovery") == 2
    printed = capsys.readouterr()
    assert (printed.out, "--nonsense" in printed.err) == ("", True)
    assert "kafka-unclean-recovery --help" in printed.err


CORES = """
import os, resource, signal, subprocess, sys
import typer
from breakglass.console.exits import run_app
app = typer.Typer()
@app.command()
def show() -> None:
    asked = "import resource as r; print(r.getrlimit(r.RLIMIT_CORE))"
    asked += "; print(int(open('/proc/self/coredump_filter').read(), 16))"
    subprocess.run([sys.executable, "-c", asked], check=True)
sys.argv[1:] = []
resource.setrlimit(resource.RLIMIT_CORE, resource.getrlimit(resource.RLIMIT_CORE)[1:] * 2)
raise SystemExit(run_app(app, "show"))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the filter of cores is Linux's")
def test_s26_neither_a_program_of_ours_nor_its_children_leave_memory_in_a_core() -> None:
    shown = in_process(CORES)
    assert (shown.returncode, shown.stdout.split("\n")[:2]) == (0, ["(0, 0)", "0"])
