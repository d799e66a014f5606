"""Models that the service can use: loaded, stored, resolved by name."""
