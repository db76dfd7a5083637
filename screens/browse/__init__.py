"""Looking into backups, and into whatever else holds records: the tree, records, two sides."""

from breakglass.screens.browse.records import RecordsScreen
from breakglass.screens.browse.screen import BrowseScreen

__all__ = ["BrowseScreen", "RecordsScreen"]
