"""Tests of the figures of merit."""
