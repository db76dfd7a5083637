"""The offline partitions of a cluster as one list that is kept current, of up to 100,000."""
