"""KIP-1275's RPCs, served by translation before brokers that have none of them."""
