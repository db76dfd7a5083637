"""Saves the records that an election cuts off the logs of other replicas."""
