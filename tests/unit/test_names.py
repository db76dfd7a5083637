"""Each public class of the product has a name of its own, which says which class is meant."""

from __future__ import annotations

from scripts import shape


def test_no_two_public_classes_of_the_product_have_the_same_name() -> None:
    shared = shape.shared_classes(shape.modules())
    assert not shared, "\n".join(f"{name}: {', '.join(where)}" for name, where in shared.items())
