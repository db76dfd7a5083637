"""Reads single replicas, leader or not: log ends, written epochs, directories, records."""
