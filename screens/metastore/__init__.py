"""The screen of a ksqlDB service: objects, queries, history, and the topic beside its backup."""

from breakglass.screens.metastore.screen import MetastoreScreen

__all__ = ["MetastoreScreen"]
