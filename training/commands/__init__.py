"""The commands of ``python -m training``: arguments and `main` only."""
