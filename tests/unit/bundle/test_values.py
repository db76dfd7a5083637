"""What is written into a bundle is read back as it was, and nothing else is read."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakglass.services.bundle.values import DEEPEST, Unfit, decode, encode
from breakglass.services.connection.secret import Secret
from breakglass.services.model import Denied, Forfeited, LogDir, PartitionEvidence, Silent, Unknown
from breakglass.services.snapshot import ClusterSnapshot, Quorum, Voter
from tests.kit.incidents import LEDGER, QUORUM, every_verdict


def there_and_back(kind: type[Any], value: Any) -> Any:
    return decode(kind, json.loads(json.dumps(encode(value))))


def test_the_evidence_of_every_verdict_comes_back_as_it_was() -> None:
    incident = every_verdict()
    assert there_and_back(ClusterSnapshot, incident.snapshot) == incident.snapshot
    for row in incident.rows:
        evidence = row.evidence
        assert evidence is not None
        assert there_and_back(PartitionEvidence, evidence) == evidence


@pytest.mark.parametrize(
    "reason",
    [Unknown("why"), Denied("why", "READ on topic orders"), Silent("why"), Forfeited("why")],
    ids=lambda reason: type(reason).__name__,
)
def test_every_kind_of_unknown_keeps_its_kind(reason: Unknown) -> None:
    evidence = replace(LEDGER, unread_floor=reason)
    found = there_and_back(PartitionEvidence, evidence).unread_floor
    assert (type(found), found) == (type(reason), reason)


def test_a_secret_has_no_form_in_a_bundle() -> None:
    with pytest.raises(TypeError):
        encode({"sasl.jaas.config": Secret("hunter2")})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=8,
)


@given(JSON)
def test_any_json_is_a_quorum_or_unfit(document: Any) -> None:
    try:
        found = decode(Quorum, document)
    except Unfit:
        return
    assert encode(found) == document


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("leader", True),
        ("leader", "101"),
        ("leader_epoch", 1.0),
        ("leader_epoch", 2**63),
        ("high_watermark", None),
        ("voters", {}),
        ("voters", [{}]),
        ("more", 1),
    ],
)
def test_a_field_of_another_type_is_unfit(field: str, value: Any) -> None:
    with pytest.raises(Unfit):
        decode(Quorum, {**encode(QUORUM), field: value})


def test_an_unknown_of_an_unknown_kind_is_unfit() -> None:
    voter = encode(Voter(1, Unknown("why"), 0))
    voter["log_end_offset"]["kind"] = "zero"
    with pytest.raises(Unfit):
        decode(Voter, voter)


def test_values_that_are_nested_without_end_are_unfit() -> None:
    document = encode(LogDir("/d", True, 1))
    for _ in range(DEEPEST + 1):
        document = {**encode(LogDir("/d", True, 1)), "copy": document}
    with pytest.raises(Unfit, match="without end"):
        decode(LogDir, document)
