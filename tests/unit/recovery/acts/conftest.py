"""Acts are carried out on the cluster of the tests of what they are about."""

from tests.unit.recovery.guarded.conftest import session, unhurried

__all__ = ["session", "unhurried"]
