"""Tests of the serving application."""
