"""Certificates that many tests share, made once."""

import pytest

from tests.unit.connection.certificates import Identity


@pytest.fixture(scope="session")
def root() -> Identity:
    return Identity.authority()


@pytest.fixture(scope="session")
def client(root: Identity) -> Identity:
    """A client whose certificate an intermediate authority signed."""
    return root.signs("Lab intermediate", authority=True).signs("operator")
