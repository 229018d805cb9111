"""Tests of `training.search.stage`."""
