"""Small metadata logs that several tests begin with."""

from __future__ import annotations

from uuid import UUID

from tests.kit.metadata_log import MetadataLog, noop, record, topic

ORDERS, LEDGER = UUID(int=0x0A), UUID(int=0x0B)


def small_log() -> MetadataLog:
    """A topic with two partitions, a setting, and a record that changes nothing."""
    log = MetadataLog()
    log.add(record("FeatureLevelRecord", name="metadata.version", feature_level=25))
    log.add(*topic("orders", ORDERS, (1, 2, 3), (2, 3, 1)))
    log.add(
        record(
            "ConfigRecord",
            resource_type=2,
            resource_name="orders",
            name="retention.ms",
            value="1000",
        )
    )
    log.add(noop())
    return log
