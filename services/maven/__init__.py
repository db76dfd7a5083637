"""Kafka's and Spark's jars, from Maven Central or a mirror of it, kept in the user's cache."""
