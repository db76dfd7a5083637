"""Looking into what records are kept in: places, topics, partitions, segments, one at a time."""
