"""Evidence of every replica, gathered from all brokers at once and put together."""
