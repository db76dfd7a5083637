"""Watches backups: which topics are stored, which jobs run, and how far behind they are."""
