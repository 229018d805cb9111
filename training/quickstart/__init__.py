"""The whole journey, from raw text to served answers."""
