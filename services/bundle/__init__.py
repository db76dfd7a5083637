"""Incident bundles: what is known of a cluster at one moment, in one file."""
