"""Lists the requests that each client may send."""

from __future__ import annotations

PRODUCE = 0
FETCH = 1
LIST_OFFSETS = 2
METADATA = 3
OFFSET_COMMIT = 8
OFFSET_FETCH = 9
FIND_COORDINATOR = 10
DESCRIBE_GROUPS = 15
LIST_GROUPS = 16
API_VERSIONS = 18
CREATE_TOPICS = 19
DELETE_TOPICS = 20
INIT_PRODUCER_ID = 22
ADD_PARTITIONS_TO_TXN = 24
ADD_OFFSETS_TO_TXN = 25
END_TXN = 26
WRITE_TXN_MARKERS = 27
TXN_OFFSET_COMMIT = 28
DESCRIBE_CONFIGS = 32
DESCRIBE_LOG_DIRS = 35
DELETE_GROUPS = 42
ELECT_LEADERS = 43
INCREMENTAL_ALTER_CONFIGS = 44
ALTER_PARTITION_REASSIGNMENTS = 45
LIST_PARTITION_REASSIGNMENTS = 46
OFFSET_DELETE = 47
DESCRIBE_QUORUM = 55
DESCRIBE_CLUSTER = 60
DESCRIBE_PRODUCERS = 61
DESCRIBE_TRANSACTIONS = 65
LIST_TRANSACTIONS = 66
CONSUMER_GROUP_DESCRIBE = 69
DESCRIBE_TOPIC_PARTITIONS = 75
DESCRIBE_SHARE_GROUP_OFFSETS = 90

READ = frozenset(
    {
        FETCH,
        LIST_OFFSETS,
        METADATA,
        OFFSET_FETCH,
        FIND_COORDINATOR,
        DESCRIBE_GROUPS,
        LIST_GROUPS,
        DESCRIBE_CONFIGS,
        DESCRIBE_LOG_DIRS,
        LIST_PARTITION_REASSIGNMENTS,
        DESCRIBE_QUORUM,
        DESCRIBE_CLUSTER,
        DESCRIBE_PRODUCERS,
        DESCRIBE_TRANSACTIONS,
        LIST_TRANSACTIONS,
        DESCRIBE_TOPIC_PARTITIONS,
        CONSUMER_GROUP_DESCRIBE,
        DESCRIBE_SHARE_GROUP_OFFSETS,
    }
)
"""Requests that change nothing on a broker: a read-only process sends no others."""

ELECT = frozenset({ELECT_LEADERS, ALTER_PARTITION_REASSIGNMENTS})
"""What an election sends besides reads."""

SETTINGS = frozenset({INCREMENTAL_ALTER_CONFIGS})
"""What preventing elections, or making the controller forget leaders, sends besides reads."""

GROUPS = frozenset({OFFSET_COMMIT, OFFSET_DELETE})
"""What moving a group's offsets sends besides reads."""

TRANSACTION_ENDS = frozenset({WRITE_TXN_MARKERS})
"""What ending hanging transactions sends besides reads."""

TOPICS = frozenset({CREATE_TOPICS, INCREMENTAL_ALTER_CONFIGS, OFFSET_COMMIT, DELETE_GROUPS})
"""What a restore sends besides reads and records."""

COMMAND_TOPIC = frozenset({CREATE_TOPICS, DELETE_TOPICS})
"""What replacing a command topic sends besides reads and records."""

CHECKPOINTS = frozenset({PRODUCE, CREATE_TOPICS})
"""What taking a checkpoint sends besides reads: markers, and the topic that stores ids."""

RECORDS = frozenset(
    {
        PRODUCE,
        INIT_PRODUCER_ID,
        ADD_PARTITIONS_TO_TXN,
        ADD_OFFSETS_TO_TXN,
        END_TXN,
        TXN_OFFSET_COMMIT,
    }
)
"""What a restore task sends besides reads: records, in transactions."""

HOLDING = CHECKPOINTS | {INCREMENTAL_ALTER_CONFIGS}
"""What taking a checkpoint sends while it suspends the retention of its topics."""
