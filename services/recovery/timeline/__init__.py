"""What was done to a cluster, told from its journals: in a line, by partition, as a timeline."""
