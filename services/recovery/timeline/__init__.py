"""What was done to a cluster, by its journals: in a line, by partition, as a timeline."""
