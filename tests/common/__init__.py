"""Tests of `common`."""
