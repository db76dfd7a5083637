"""The cluster at a glance: quorum, brokers, partitions in trouble, and the age of every figure."""
