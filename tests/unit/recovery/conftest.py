"""Fixtures that the tests of recovery share."""

from __future__ import annotations

from tests.unit.recovery.execution.conftest import bench

__all__ = ["bench"]
