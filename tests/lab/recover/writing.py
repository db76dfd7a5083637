"""Writing the same number of records to many partitions."""

from collections.abc import Sequence

from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.produce import Pattern, produce_each
from breakglass.services.model import TopicPartition


def write(
    cluster: Cluster, partitions: Sequence[TopicPartition], count: int, *, start: int = 0
) -> None:
    """Let every replica in sync have *count* more records, ``r-start`` being the first key."""
    produce_each(cluster, dict.fromkeys(partitions, count), pattern=Pattern(start=start))
