"""Kafka clients: one sender with an allow-list, and the requests that are sent through it.

Only kafka-python's protocol schemas are used. Importing this package registers a bare ``kafka``
package, so that the schemas load without kafka-python's clients: these can change a cluster, and
importing them takes longer than a whole triage should.
"""

from __future__ import annotations

import importlib.util
import sys
import types


def _schemas_without_clients() -> None:
    """Register a ``kafka`` package that has submodules but runs no ``__init__``."""
    spec = importlib.util.find_spec("kafka")
    if spec is None or spec.submodule_search_locations is None:
        raise ImportError("kafka-python is not installed: install breakglass again")
    package = types.ModuleType("kafka")
    package.__spec__ = spec
    package.__path__ = list(spec.submodule_search_locations)
    sys.modules["kafka"] = package


if "kafka" not in sys.modules:
    _schemas_without_clients()
