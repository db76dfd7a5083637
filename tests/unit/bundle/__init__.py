"""Incident bundles."""
