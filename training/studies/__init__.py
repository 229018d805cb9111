"""Studies of the method: rank check, random baseline, latency."""
