"""How a cluster is reached: Kafka's own settings, secrets, TLS and SASL, for both clients."""
