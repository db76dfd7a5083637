"""Whatever changes the world is an act, and both front ends reach acts by the guard alone."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from breakglass import services
from breakglass.services.guard.act import Act

ROOT = Path(__file__).resolve().parents[3]
POWERS = {
    "elections",
    "groups",
    "settings",
    "topics",
    "command_topic",
    "markers",
    "records",
    "transaction_ends",
}
"""The methods of `Power`, which make clients that change a cluster."""
SERVER = ROOT / "console" / "checkpoint_serve.py"
"""Takes checkpoints as long as it runs; it was begun with --write."""


def acts() -> list[type[Act[object]]]:
    """Every act of the product."""
    found: list[type[Act[object]]] = []
    for package in pkgutil.iter_modules(services.__path__, "breakglass.services."):
        try:
            folder = importlib.import_module(f"{package.name}.acts")
        except ModuleNotFoundError:
            continue
        for module in pkgutil.iter_modules(folder.__path__, f"{folder.__name__}."):
            defined = vars(importlib.import_module(module.name)).values()
            found += [
                one
                for one in defined
                if isinstance(one, type) and issubclass(one, Act) and one.__module__ == module.name
            ]
    return found


def front_ends() -> Iterator[tuple[Path, ast.Module]]:
    for folder in ("console", "screens"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield path, ast.parse(path.read_text())


@pytest.mark.parametrize("act", acts(), ids=lambda act: act.__name__)
def test_an_act_says_what_it_does_and_leaves_the_guarding_to_the_guard(
    act: type[Act[object]],
) -> None:
    assert act.doing
    tree = ast.parse(Path(str(importlib.import_module(act.__module__).__file__)).read_text())
    called = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    assert "Journal.open" not in called
    assert "require_phrases" not in called


def test_every_subsystem_has_its_acts() -> None:
    assert {act.__module__.split(".")[2] for act in acts()} == {
        "checkpoint",
        "metastore",
        "pipeline",
        "recovery",
    }


def test_no_front_end_opens_a_journal_or_makes_a_client_that_changes_anything() -> None:
    offending = [
        f"{path.relative_to(ROOT)}:{node.lineno} {ast.unparse(node.func)}"
        for path, tree in front_ends()
        if path != SERVER
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and (
            ast.unparse(node.func) in ("Journal.open", "Journal.resume")
            or (node.func.attr in POWERS and "power" in ast.unparse(node.func.value).lower())
        )
    ]
    assert offending == []


def test_only_the_guard_carries_an_act_out() -> None:
    callers = {
        path.relative_to(ROOT).as_posix()
        for path in sorted((ROOT / "services").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("act.carry_out")
    }
    assert callers == {"services/guard/run.py"}
