"""What a record without the participant's headers is taken for (H10)."""

from __future__ import annotations

import pytest

from breakglass.services.checkpoint.kafka.scanning import FROM_OUTSIDE, require_stamp
from breakglass.services.errors import Refused
from breakglass.services.model import TopicPartition

ORDERS = TopicPartition("orders", 3)


def test_h10_a_record_without_headers_is_refused_by_its_place() -> None:
    with pytest.raises(Refused, match="the record at offset 7 of orders-3 says nothing"):
        require_stamp(ORDERS, 7, [], external=["carts"])


def test_h10_a_record_of_an_external_topic_comes_from_outside() -> None:
    assert require_stamp(ORDERS, 7, [], external=["orders"]) is FROM_OUTSIDE
