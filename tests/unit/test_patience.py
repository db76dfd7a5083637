"""How long the product waits for answers is decided in one module."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from breakglass.services import patience

TREE = Path(__file__).parents[2]
MODULES = sorted(
    path
    for folder in ("console", "screens", "services")
    for path in (TREE / folder).rglob("*.py")
    if "lab" not in path.relative_to(TREE).parts
)


def own_numbers(module: ast.Module) -> frozenset[str]:
    """The names that *module* binds to a number at its top."""
    return frozenset(
        target.id
        for statement in module.body
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant)
        for target in statement.targets
        if isinstance(target, ast.Name)
    )


def waits_decided_there(source: str) -> Iterator[str]:
    """The deadlines of *source* whose seconds are written in it."""
    module = ast.parse(source)
    numbers = own_numbers(module)
    for call in ast.walk(module):
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)):
            continue
        if call.func.attr not in ("after", "sooner") or len(call.args) != 1:
            continue
        (seconds,) = call.args
        written = isinstance(seconds, ast.Constant) and seconds.value != 0
        if written or (isinstance(seconds, ast.Name) and seconds.id in numbers):
            yield f"{call.lineno}: {ast.unparse(call)}"


def test_no_module_decides_itself_how_long_it_waits_for_an_answer() -> None:
    found = {
        str(path.relative_to(TREE)): waits
        for path in MODULES
        if (waits := list(waits_decided_there(path.read_text(encoding="utf-8"))))
    }
    assert not found


@pytest.mark.parametrize(
    "source", ["Deadline.after(3.0)", "ASK = 2.0\ndeadline.sooner(ASK)", "A = 1\nDeadline.after(A)"]
)
def test_seconds_that_a_module_writes_itself_are_found(source: str) -> None:
    assert list(waits_decided_there(source))


def test_seconds_of_patience_and_of_a_caller_are_allowed() -> None:
    allowed = "Deadline.after(patience.JOB)\nDeadline.after(seconds)\nDeadline.after(0)"
    assert not list(waits_decided_there(allowed))


def test_every_kind_of_question_is_used_and_described() -> None:
    source = Path(patience.__file__).read_text(encoding="utf-8")
    body = ast.parse(source).body
    kinds = [
        (statement.target.id, body[place + 1])
        for place, statement in enumerate(body)
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)
    ]
    used = "\n".join(path.read_text(encoding="utf-8") for path in MODULES)
    assert [name for name, after in kinds if not isinstance(after, ast.Expr)] == []
    assert [name for name, _ in kinds if f"patience.{name}" not in used] == []
