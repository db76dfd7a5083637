"""What earlier commands and consoles heard of replicas, and what elections did to them."""
