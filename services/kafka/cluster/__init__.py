"""What the cluster as a whole tells: brokers, quorum, partitions, settings, groups."""
