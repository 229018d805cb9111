"""The supernet and pretraining from scratch."""
