"""Tests of `training.finetuning`."""
