"""Reads the state of the whole cluster: brokers, quorum, partitions, settings, groups."""
