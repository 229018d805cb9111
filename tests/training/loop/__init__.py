"""Tests of `training.loop.train`."""
