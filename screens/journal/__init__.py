"""The journal: what was done from here, by whom, how it ended, and what is still unknown."""

from breakglass.screens.journal.screen import JournalScreen

__all__ = ["JournalScreen"]
