"""Tests of `training.run`."""
