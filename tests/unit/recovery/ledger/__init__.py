"""The ledger of an incident."""
