"""Whatever changes the world is an act, and both front ends reach acts by the guard alone."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path

from breakglass import services
from breakglass.services.guard.act import Act

ROOT = Path(__file__).resolve().parents[3]
SERVER = ROOT / "console" / "checkpoint.py"
"""Takes checkpoints as long as it runs; it was begun with --write."""
CHANGING = re.compile(
    r"\bJournal\.(open|resume)\(|power\w*(\([^()]*\))?\.(elections|groups|settings|topics"
    r"|command_topic|markers|records|transaction_ends)\(",
    re.IGNORECASE,
)
"""Opens a journal, or has `Power` make a client that changes a cluster."""


def acts() -> list[type[Act[object]]]:
    """Every act of the product."""
    found: list[type[Act[object]]] = []
    for package in pkgutil.iter_modules(services.__path__, "breakglass.services."):
        try:
            folder = importlib.import_module(f"{package.name}.acts")
        except ModuleNotFoundError:
            continue
        for module in pkgutil.iter_modules(folder.__path__, f"{folder.__name__}."):
            for one in vars(importlib.import_module(module.name)).values():
                if isinstance(one, type) and issubclass(one, Act) and one.__module__ == module.name:
                    found.append(one)
    return found


def test_each_act_says_what_it_does_and_leaves_the_guarding_to_the_guard() -> None:
    subsystems = set()
    for act in acts():
        subsystems.add(act.__module__.split(".")[2])
        assert act.doing, act
        source = Path(str(importlib.import_module(act.__module__).__file__)).read_text()
        assert "Journal.open(" not in source, act
        assert "require_phrases(" not in source, act
    assert subsystems == {"checkpoint", "metastore", "pipeline", "recovery"}


def test_no_front_end_opens_a_journal_or_makes_a_client_that_changes_anything() -> None:
    paths = [path for folder in ("console", "screens") for path in (ROOT / folder).rglob("*.py")]
    assert {path for path in paths if CHANGING.search(path.read_text())} == {SERVER}


def test_only_the_guard_carries_an_act_out() -> None:
    paths = list((ROOT / "services").rglob("*.py"))
    callers = [path for path in paths if "act.carry_out(" in path.read_text()]
    assert callers == [ROOT / "services" / "guard" / "run.py"]
