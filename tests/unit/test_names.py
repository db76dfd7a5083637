"""Each public class of the product has a name of its own, which says which class is meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import shape


def test_no_two_public_classes_of_the_product_have_the_same_name() -> None:
    shared = shape.shared_classes(shape.modules())
    assert not shared, "\n".join(f"{name}: {', '.join(where)}" for name, where in shared.items())


def test_a_second_class_of_the_same_name_is_found_in_any_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package, source in (
        ("console", "class Row:\n    pass\n"),
        ("screens", "class _Row:\n    pass\n"),
        ("services", "class Row:\n    pass\n\n\nclass Alone:\n    pass\n"),
    ):
        (tmp_path / package).mkdir()
        (tmp_path / package / "table.py").write_text(source)
    monkeypatch.setattr(shape, "ROOT", tmp_path)

    shared = shape.shared_classes(shape.modules())

    assert shared == {"Row": ["console.table", "services.table"]}
