"""Labelled texts in tables of people's own: one reader, for all who read them."""
