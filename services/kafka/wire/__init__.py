"""Bytes to and from brokers: connections, the one sender, deadlines, errors, our own messages."""
