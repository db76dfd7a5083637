"""Figures for Prometheus: what a cluster and its backups are like, and how fresh that is."""
