"""The screen of backups: what is backed up, how far it is behind, what runs, what was verified."""

from breakglass.screens.backups.screen import BackupsScreen

__all__ = ["BackupsScreen"]
