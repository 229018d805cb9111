"""Tests of `training.studies`."""
