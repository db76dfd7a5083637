"""The offline partitions: what is lost, which replica loses least, what to do first."""

from __future__ import annotations

from breakglass.screens.offline.screen import OfflineScreen

__all__ = ["OfflineScreen"]
