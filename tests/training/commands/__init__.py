"""Tests of `training.commands`."""
