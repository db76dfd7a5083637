"""A time bomb on real brokers: stopped in time, and gone off."""
