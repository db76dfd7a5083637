"""Backing up and restoring where something is killed, full, forbidden, cut off or elsewhere."""
