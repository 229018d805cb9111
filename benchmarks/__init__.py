"""Measured figures: ratios within one run, never asserted by the default tests."""
