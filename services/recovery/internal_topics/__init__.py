"""Reads Kafka's internal topics, and which of their keys an election sets back (R17)."""
