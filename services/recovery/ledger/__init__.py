"""The ledger of an incident: what became of every record that a readable replica held."""
