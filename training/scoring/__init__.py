"""What a supernet says of an architecture: scores with inherited weights."""
