"""Figures that tell how good a model is, computed from plain arrays."""
