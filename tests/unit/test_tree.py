"""tests/unit has the shape of the tree: each test file is named after what it tests."""

from pathlib import Path

UNIT = Path(__file__).parent
ROOT = UNIT.parents[1]
BESIDE_SERVICES = {"bookkeeping", "console", "screens", "scripts", "themes"}
"""Folders of tests/unit that mirror a folder of the tree; all others mirror one of services/."""


def places_named(test: Path) -> list[Path]:
    """The modules and packages that *test* may be named after."""
    folder = test.parent.relative_to(UNIT)
    place = (ROOT if folder.parts[0] in BESIDE_SERVICES else ROOT / "services") / folder
    name = test.stem.removeprefix("test_")
    itself = [place] if name == place.name else []
    return [path for path in (place / f"{name}.py", place / name, *itself) if path.exists()]


def test_every_test_file_below_a_folder_is_named_after_a_module_or_package_there() -> None:
    tests = [test for test in UNIT.rglob("test_*.py") if test.parent != UNIT]
    strays = [str(test.relative_to(UNIT)) for test in tests if not places_named(test)]
    assert len(tests) > 100
    assert sorted(strays) == []
