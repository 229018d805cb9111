"""The search of a supernet."""
