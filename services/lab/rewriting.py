"""Rewrites answers on their way to the client: addresses of brokers, api versions, and errors.

An error answer is built from the request alone, by the schemas of request and answer.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from breakglass.services.errors import LabError
from breakglass.services.kafka.wire import api_keys
from breakglass.services.kafka.wire.passing import API_VERSIONS, Head, answer_frame, answer_message

ADDRESSING = (api_keys.METADATA, api_keys.FIND_COORDINATOR, api_keys.DESCRIBE_CLUSTER)
"""The requests whose answers name addresses in every version."""
ADDRESS_FREE_VERSIONS = {api_keys.PRODUCE: 9, api_keys.FETCH: 15}
"""The last versions of Produce and Fetch whose answers name no new leader's address (KIP-951)."""
SCHEMA_MODULES = (
    "kafka.protocol.metadata",
    "kafka.protocol.consumer",
    "kafka.protocol.producer",
    "kafka.protocol.admin",
    "kafka.protocol.sasl",
    "breakglass.services.kafka.wire.messages.kip1275",
)
"""Later ones win: our ElectLeaders knows version 3."""
ALIASES = (
    frozenset({"partition", "partition_index", "partition_id"}),
    frozenset({"topic", "name"}),
)
"""Names that one thing goes by in requests and their answers."""
ERROR = "error_code"


@functools.cache
def message_classes() -> dict[int, tuple[Any, Any]]:
    """Request and response class of each api key that we have a schema of."""
    found: dict[int, dict[str, Any]] = {}
    for module in map(importlib.import_module, SCHEMA_MODULES):
        for name in dir(module):
            message_class = getattr(module, name)
            if getattr(message_class, "type", None) in ("request", "response"):
                found.setdefault(message_class.API_KEY, {})[message_class.type] = message_class
    return {
        key: (pair["request"], pair["response"]) for key, pair in found.items() if len(pair) == 2
    }


def classes_of(api_key: int) -> tuple[Any, Any]:
    """Request and response class of *api_key*.

    Raises:
        LabError: there is no schema of it.
    """
    try:
        return message_classes()[api_key]
    except KeyError:
        raise LabError(f"No schema of api key {api_key}: it cannot be answered.") from None


def refusal(request: Any, response_class: Any, error_code: int, *, whole: bool = False) -> Any:
    """The answer to *request* in which every item carries *error_code*.

    With *whole*, or where no item of the answer carries an error of its own, the error is
    at its top, if it has a place there, and the answer is otherwise empty.
    """
    mirrored = _mirrored(response_class, request, error_code, top=True)
    if ERROR not in response_class.fields or (_carries(mirrored, error_code) and not whole):
        return mirrored
    return response_class(**{ERROR: error_code})


def _mirrored(container_class: Any, source: Any, error_code: int, *, top: bool) -> Any:
    """A *container_class* with what *source* has under like names, and the error."""
    answer = container_class()
    for name, field in container_class.fields.items():
        if name == ERROR:
            setattr(answer, name, 0 if top else error_code)
        elif field.is_struct_array():
            items = [
                _mirrored(field.data_class, item, error_code, top=False)
                for item in _items(source, name)
            ]
            setattr(answer, name, items)
        elif (value := _like(source, name)) is not None:
            setattr(answer, name, value)
    return answer


def _items(source: Any, name: str) -> list[Any]:
    """The list of *source* that a list called *name* answers: its namesake, or its only one."""
    if not hasattr(source, "fields"):
        return []
    values = {field: getattr(source, field) for field in source.fields}
    lists = {field: value for field, value in values.items() if isinstance(value, list) and value}
    if name in lists:
        return lists[name]
    return next(iter(lists.values())) if len(lists) == 1 else []


def _like(source: Any, name: str) -> Any:
    """A scalar of *source* called *name* or an alias; a bare item stands for its first field."""
    if not hasattr(source, "fields"):
        numbered = isinstance(source, int) and name in ALIASES[0]
        named = isinstance(source, str) and name in ALIASES[1] | {"key", "group_id"}
        return source if numbered or named else None
    for candidate in _names(name):
        if candidate in source.fields:
            value = getattr(source, candidate)
            return None if isinstance(value, list) else value
    return None


def _names(name: str) -> Iterator[str]:
    yield name
    for names in ALIASES:
        if name in names:
            yield from names - {name}


def _carries(answer: Any, error_code: int) -> bool:
    """Whether any item below the top says the error."""
    for name, field in answer.fields.items():
        if field.is_struct_array():
            for item in getattr(answer, name) or ():
                if getattr(item, ERROR, None) == error_code or _carries(item, error_code):
                    return True
    return False


Addresses = Mapping[int, tuple[str, int]]
"""By broker id, where clients are to be sent."""
Offers = Mapping[int, tuple[int, int] | None]
"""By api key, the versions to advertise in place of the broker's own; None: not at all."""

Change = Callable[[Any], None]


class Rewriting:
    """Which answers are changed, and how."""

    def __init__(self, addresses: Addresses | None, offers: Offers) -> None:
        self._addresses: Addresses = {} if addresses is None else addresses
        self._moves = addresses is not None
        self._offers = offers
        self._changes: dict[int, Change] = {}
        if offers or self._moves:
            self._changes[API_VERSIONS] = self._change_offers
        if self._moves:
            for api_key in ADDRESSING:
                self._changes[api_key] = self._change_addresses

    def apply(self, head: Head, frame: bytes) -> bytes:
        """The answer to *head* as the client is to get it.

        Raises:
            LabError: the answer has a version that we have no schema of.
        """
        change = self._changes.get(head.api_key)
        if change is None:
            return frame
        response_class = classes_of(head.api_key)[1]
        if head.api_key == API_VERSIONS and head.api_version > response_class.max_version:
            # A broker that does not know the version answers in version 0, with an error. If the
            # broker knows it and we do not, the client must retry with a lower version.
            return answer_frame(at_version_0(head), response_class(error_code=35))
        if head.api_version > response_class.max_version:
            raise LabError(f"Version {head.api_version} of api {head.api_key} has no schema here.")
        answer = answer_message(head, frame, response_class)
        if head.api_key == API_VERSIONS and answer.error_code:
            return frame
        change(answer)
        return answer_frame(head, answer)

    def _change_offers(self, answer: Any) -> None:
        offered = {api.api_key: api for api in answer.api_keys}
        for api_key, versions in self._offers.items():
            offered.pop(api_key, None)
            if versions is not None:
                offered[api_key] = answer.ApiVersion(
                    api_key=api_key, min_version=versions[0], max_version=versions[1]
                )
        if self._moves:
            for api_key, last in ADDRESS_FREE_VERSIONS.items():
                offered[api_key].max_version = min(offered[api_key].max_version, last)
        answer.api_keys = [offered[api_key] for api_key in sorted(offered)]

    def _change_addresses(self, answer: Any) -> None:
        for broker, node in addressed(answer):
            if broker in self._addresses:
                node.host, node.port = self._addresses[broker]


def addressed(answer: Any) -> Iterator[tuple[int, Any]]:
    """Broker ids, each with the part of *answer* that has the broker's host and port."""
    lists = [getattr(answer, name) for name in ("brokers", "coordinators") if name in answer.fields]
    for node in [answer] if "host" in answer.fields else []:
        yield node.node_id, node
    for node in (node for nodes in lists for node in nodes or ()):
        yield node.node_id if "node_id" in node.fields else node.broker_id, node


def at_version_0(head: Head) -> Head:
    """*head* as that of version 0, in which an unknown version of ApiVersions is refused."""
    return Head(head.api_key, 0, head.correlation_id, head.client_id, head.end)
