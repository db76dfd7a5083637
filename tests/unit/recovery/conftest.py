"""Fixtures that the tests of recovery share."""

from tests.unit.recovery.execution.conftest import bench

__all__ = ["bench"]
