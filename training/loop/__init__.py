"""The training loop that the supernet and pretraining share."""
