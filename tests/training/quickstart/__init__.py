"""Tests of `training.quickstart.stage`."""
