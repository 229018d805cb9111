"""Tests of the export application."""
