"""Electing under guard: the steps from a price to a confirmed leader."""

from breakglass.screens.elect.screen import ElectScreen, ResumeScreen

__all__ = ["ElectScreen", "ResumeScreen"]
