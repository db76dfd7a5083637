"""The overview: quorum, brokers, partitions in trouble with their course, age of every figure."""

from breakglass.screens.overview.screen import OverviewScreen

__all__ = ["OverviewScreen"]
