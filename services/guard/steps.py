"""The steps of guarded acts, as journals name them."""

from __future__ import annotations

TAKE_CHECKPOINT = "take checkpoint"
DELETE_CHECKPOINT = "delete checkpoint"
HOLD_RETENTION = "hold retention"
RELEASE_RETENTION = "release retention"
RESTORE_RECORDS = "restore records"
RESTORE_COMMAND_TOPIC = "restore command topic"
SUBMIT_STATEMENT = "submit statement"
PRUNE_BACKUP = "prune backup"
REBUILD_INDEXES = "rebuild indexes"
FREEZE_ELECTIONS = "freeze unclean elections"
FORGET_LEADERS = "change min.insync.replicas"
ADD_REPLICAS = "add replicas"
PUT_SETTING_BACK = "put setting back"
PREPARE_QUORUM = "prepare quorum"
