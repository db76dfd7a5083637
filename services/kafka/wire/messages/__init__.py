"""Wire messages that kafka-python lacks, in its own form: a JSON schema and a class each."""
