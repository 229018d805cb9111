"""A server at saturation while its versions change: ``make stress``."""
