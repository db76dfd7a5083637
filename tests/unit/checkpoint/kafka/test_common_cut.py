"""The greatest cut that is consistent for several groups at once (H8)."""

from __future__ import annotations

from breakglass.services.checkpoint.kafka.deciding import greatest_common_cut
from breakglass.services.checkpoint.protocol.lineage import Lineage, RecordLineage

FLOORS = {1: 0, 2: 0, 3: 0}
ENDS = {1: 10, 2: 10, 3: 10}


def test_h08_what_one_group_lowers_lowers_the_others() -> None:
    committed = {"first": {1: 4}, "second": {2: 9}}
    records = {
        # Of a record that the first group had not processed when the ends were read.
        "first": [Lineage(2, 6, RecordLineage(1, 5))],
        # Which the second one has processed meanwhile.
        "second": [Lineage(3, 7, RecordLineage(2, 6))],
    }
    assert greatest_common_cut(FLOORS, ENDS, committed, records) == {1: 10, 2: 6, 3: 7}


def test_h08_without_a_record_out_of_order_nothing_is_lowered() -> None:
    committed = {"first": {1: 10}, "second": {2: 10}}
    records = {
        "first": [Lineage(2, 6, RecordLineage(1, 5))],
        "second": [Lineage(3, 7, RecordLineage(2, 6))],
    }
    assert greatest_common_cut(FLOORS, ENDS, committed, records) == ENDS


def test_a_group_without_records_changes_nothing() -> None:
    assert greatest_common_cut(FLOORS, ENDS, {"idle": {}}, {"idle": []}) == ENDS
