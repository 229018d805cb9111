"""Tests of `training.pretraining`."""
