"""Tests of `common.labelled_tables`."""
