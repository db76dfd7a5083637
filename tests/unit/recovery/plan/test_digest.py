"""Digests that do not depend on how a document is written down."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from breakglass.services.recovery.plan.digest import digest_of, spoken


def test_neither_the_order_of_keys_nor_white_space_matters() -> None:
    assert digest_of({"a": 1, "b": [1, 2]}) == digest_of({"b": [1, 2], "a": 1})
    assert digest_of({"a": 1}) != digest_of({"a": 2})
    assert digest_of([1, 2]) != digest_of([2, 1])


def test_the_digest_is_sha256_in_hexadecimal() -> None:
    assert digest_of({}) == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"


def test_groups_are_proquints_of_the_first_48_bits() -> None:
    """127.0.0.1 and 63.84.220.193 are examples of the proposal."""
    assert spoken("7f000001" + "3f54" + "0" * 52) == "lusab-babad-gutih"
    assert spoken("dcc1" + "0" * 60).startswith("tugad")


@given(st.text(alphabet="0123456789abcdef", min_size=64, max_size=64))
def test_spoken_digests_can_be_spoken(digest: str) -> None:
    assert re.fullmatch(r"([a-z]{5}-){2}[a-z]{5}", spoken(digest))
