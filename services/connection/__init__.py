"""How to connect to a cluster: Kafka's own settings, secrets, TLS and SASL, for both clients."""
