"""Journals as JSON: in brief, or with every partition and step."""

from __future__ import annotations

from typing import Any

from breakglass.services.guard.journal import UnreadableJournal
from breakglass.services.guard.journal_view import JournalStep
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.timeline.account import Account, Brief
from breakglass.services.recovery.timeline.ending import PartitionEnding, result_of
from breakglass.services.recovery.timeline.moments import moments_of

SCHEMA = 1


def list_document(journals: list[Brief | UnreadableJournal]) -> dict[str, Any]:
    """All of *journals*, newest first."""
    return {"schema": SCHEMA, "journals": [_listed(journal) for journal in journals]}


def account_document(account: Account) -> dict[str, Any]:
    """One journal: how it ended for each partition, and each step."""
    return {
        "schema": SCHEMA,
        **brief_document(account.brief),
        "partitions": [_ending(ending) for ending in account.endings],
        "steps": [_step(step) for step in account.view.steps],
    }


def timeline_document(accounts: list[Account]) -> dict[str, Any]:
    """The timelines of *accounts*."""
    return {
        "schema": SCHEMA,
        "timelines": [
            {
                **brief_document(account.brief),
                "moments": list(moments_of(account.view)),
                "topics": [
                    {
                        "topic": topic.topic,
                        "partitions": [ending.partition.partition for ending in topic.endings],
                        "outcomes": topic.counts,
                        "stake": topic.stake,
                        "records_rescued": topic.rescued,
                    }
                    for topic in account.topics
                ],
            }
            for account in accounts
        ],
    }


def brief_document(brief: Brief) -> dict[str, Any]:
    """A journal in a line."""
    return {
        "journal": brief.path,
        "cluster_id": brief.cluster_id,
        "who": brief.who,
        "resumed_by": brief.resumed_by,
        "opened_at_ms": brief.opened_at_ms,
        "last_at_ms": brief.last_at_ms,
        "what": brief.what,
        "result": brief.result,
        "outcomes": brief.counts,
        "unknown": brief.unknown,
        "stake": brief.stake,
        "digest": brief.digest,
        "resumable": brief.resumable,
    }


def _listed(journal: Brief | UnreadableJournal) -> dict[str, Any]:
    if isinstance(journal, UnreadableJournal):
        return {"journal": journal.path, "unreadable": journal.reason}
    return brief_document(journal)


def _ending(ending: PartitionEnding) -> dict[str, Any]:
    return {
        **_named(ending.partition),
        "result": ending.result,
        "reason": ending.reason,
        "leader": ending.leader,
        "leader_epoch": ending.leader_epoch,
        "rung": ending.rung,
        "price": ending.price,
        "abandons": ending.abandons,
        "unread_at_least": ending.unread_at_least,
        "unread_source": ending.unread_source,
        "order_kept": ending.order_kept,
        "rescued": [
            {"broker": saved.broker, "records": saved.records, "path": saved.path}
            for saved in ending.rescued
        ],
    }


def _step(step: JournalStep) -> dict[str, Any]:
    outcomes = {partition: result_of(step, partition) for partition in step.items}
    return {
        "step": step.name,
        "at_ms": step.request.at_ms,
        "partitions": [
            {**_named(partition), **told.details, "result": told.result}
            for partition, told in outcomes.items()
        ],
    }


def _named(partition: TopicPartition) -> dict[str, Any]:
    return {"topic": partition.topic, "partition": partition.partition}
