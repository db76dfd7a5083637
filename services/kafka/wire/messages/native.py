"""What tells KIP-1275's messages from others, without the messages, which few clusters speak."""

from __future__ import annotations

DESIGNATED_SINCE = 3
"""The first version of ElectLeaders that carries DesignatedLeaders."""
DEFAULT_API_KEY = 93
"""GetReplicaLogInfo's in the merged form. KIP-1275 leaves it open, and Kafka's trunk gives 93 to
StreamsGroupTopologyDescriptionUpdate (KIP-1331): an advertised 93 proves nothing."""
MAX_PARTITIONS = 1_000
"""Limit of a GetReplicaLogInfo; a broker serves the first ones of a larger request."""
