"""Saving what an election cuts off the logs of the replicas that lose it."""
