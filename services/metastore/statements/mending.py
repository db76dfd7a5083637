"""Mends what a statement has from a page: typographic quotes, and the older name of a setting."""

from __future__ import annotations

from typing import NamedTuple

from breakglass.services.metastore.statements.parsing import parse, split_at_commas
from breakglass.services.metastore.statements.statement import InvalidStatement, StatementKind

_STRAIGHT = str.maketrans({"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"'})


class MendedStatement(NamedTuple):
    """A statement as ksqlDB's grammar has it."""

    text: str
    notes: tuple[str, ...] = ()
    """What was changed, a sentence each."""


def mend(text: str) -> MendedStatement:
    """*text*, mended where ksqlDB cannot read it and its meaning is certain; never raises.

    Typographic quotes are straightened only where the text is not a statement otherwise, and TOPIC
    becomes KAFKA_TOPIC only where WITH has no KAFKA_TOPIC.
    """
    notes = []
    straight = text.translate(_STRAIGHT)
    if straight != text and not _parsed(text) and _parsed(straight):
        text = straight
        notes.append("typographic quotes were replaced by ' and \"")
    named = _with_kafka_topic(text)
    if named != text:
        text = named
        notes.append("TOPIC was replaced by KAFKA_TOPIC, the name that ksqlDB has")
    return MendedStatement(text, tuple(notes))


def _parsed(text: str) -> bool:
    try:
        parse(text)
    except InvalidStatement:
        return False
    return True


def _with_kafka_topic(text: str) -> str:
    try:
        statement = parse(text)
    except InvalidStatement:
        return text
    if statement.kind is not StatementKind.CREATE_SOURCE or statement.topic is not None:
        return text
    for group in split_at_commas(list(statement.settings)):
        if group and group[0].is_word("TOPIC"):
            at = group[0].at
            return f"{text[:at]}KAFKA_TOPIC{text[at + len('TOPIC') :]}"
    return text
