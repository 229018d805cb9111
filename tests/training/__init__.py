"""Tests of the training application."""
