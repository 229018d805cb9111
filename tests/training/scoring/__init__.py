"""Tests of `training.scoring.score`."""
