"""How long the product waits for answers is decided in one module."""

import ast
from collections.abc import Iterator
from pathlib import Path

from breakglass.services import patience

TREE = Path(__file__).parents[2]
MODULES = {
    str(path.relative_to(TREE)): path.read_text(encoding="utf-8")
    for folder in ("console", "screens", "services")
    for path in (TREE / folder).rglob("*.py")
    if "lab" not in path.relative_to(TREE).parts
}


def waits_decided_there(source: str) -> Iterator[str]:
    """The deadlines of *source* whose seconds are written in it."""
    module = ast.parse(source)
    # The names that module binds to a number at its top.
    numbers = frozenset(
        target.id
        for statement in module.body
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant)
        for target in statement.targets
        if isinstance(target, ast.Name)
    )
    for call in ast.walk(module):
        match call:
            case ast.Call(ast.Attribute(attr="after" | "sooner"), [seconds]):
                written = isinstance(seconds, ast.Constant) and seconds.value != 0
                if written or (isinstance(seconds, ast.Name) and seconds.id in numbers):
                    yield f"{call.lineno}: {ast.unparse(call)}"


def test_no_module_decides_itself_how_long_it_waits_for_an_answer() -> None:
    assert list(waits_decided_there("ASK = 2.0\ndeadline.sooner(ASK)\nDeadline.after(0)"))
    waits = {
        name: list(waits_decided_there(text))
        for name, text in MODULES.items()
        if ".after(" in text or ".sooner(" in text
    }
    assert {name: found for name, found in waits.items() if found} == {}


def test_every_kind_of_question_is_used_and_described() -> None:
    body = ast.parse(Path(patience.__file__).read_text(encoding="utf-8")).body
    kinds = [
        (statement.target.id, body[place + 1])
        for place, statement in enumerate(body)
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)
    ]
    used = "\n".join(MODULES.values())
    assert [name for name, after in kinds if not isinstance(after, ast.Expr)] == []
    assert [name for name, _ in kinds if f"patience.{name}" not in used] == []
