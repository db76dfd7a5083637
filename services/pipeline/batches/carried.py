"""Connection settings on their way to tasks, secrets included.

A `Secret` refuses to be pickled, lest it be written somewhere by mistake. Tasks connect to brokers
by themselves, so for them alone it is taken along, in bytes that only `unpacked` makes use of.
"""

from __future__ import annotations

import io
import pickle

from services.connection.secret import Secret
from services.connection.settings import ConnectionSettings


class _Packing(pickle.Pickler):
    dispatch_table = {Secret: lambda secret: (Secret, (secret.reveal(),))}  # noqa: RUF012


def packed(settings: ConnectionSettings) -> bytes:
    """The *settings* as bytes that hold their secrets: they go to tasks and nowhere else."""
    file = io.BytesIO()
    _Packing(file).dump(settings)
    return file.getvalue()


def unpacked(content: bytes) -> ConnectionSettings:
    """What `packed` was given, in a task that was sent it by the driver."""
    settings = pickle.loads(content)  # noqa: S301
    assert isinstance(settings, ConnectionSettings)
    return settings
