"""Options of a search that takes a second or so."""

SMALL = (
    *("--population", "8", "--iterations", "3", "--crossover", "3", "--mutation", "3"),
    *("--top-k", "3"),
)
