"""Digests that do not depend on how a document is written down."""

from __future__ import annotations

from breakglass.services.recovery.plan.digest import digest_of, spoken


def test_the_digest_is_sha256_in_hexadecimal() -> None:
    assert digest_of({}) == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"


def test_groups_are_proquints_of_the_first_48_bits() -> None:
    """127.0.0.1 and 63.84.220.193 are examples of the proposal."""
    assert spoken("7f000001" + "3f54" + "0" * 52) == "lusab-babad-gutih"
    assert spoken("dcc1" + "0" * 60).startswith("tugad")
