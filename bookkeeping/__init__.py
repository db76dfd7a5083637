"""Finds out which records were acknowledged and which every replica has, without the product.

Nothing here shares code with the rest of `breakglass`, which an import contract and a test check:
a fault there cannot hide in the books by which it is judged. The parser reads segments as Apache
Kafka's own classes describe them, producers report to their own book, and settings are read by
confluent-kafka's admin client.
"""
