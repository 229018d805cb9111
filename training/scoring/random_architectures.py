"""Random architectures, spread over sets of letters."""

from collections.abc import Sequence

from common.command_line import UsageError
from lvbert_tf.search.space import SearchSpace


def letter_sets(text: str, letters: str) -> list[str]:
    """Returns the sets of letters to draw from: the supernet's first, then pairs.

    Raises:
        UsageError: if a set has letters that the supernet lacks.
    """
    if not text:
        pairs = [a + b for i, a in enumerate(letters) for b in letters[i + 1 :]]
        return list(dict.fromkeys([letters, *pairs]))
    sets = text.split(",")
    for letter_set in sets:
        foreign = [letter for letter in letter_set if letter not in letters]
        if foreign or not letter_set or len(set(letter_set)) < len(letter_set):
            raise UsageError(
                f"--letter-sets {text}: expected sets of different letters of "
                f"{letters!r}, found {letter_set!r}"
            )
    return sets


def draw_architectures(
    sets: Sequence[str], num_layers: int, count: int, seed: int
) -> list[tuple[str, str]]:
    """Draws different architectures, half of them over the first set of letters.

    Returns:
        Pairs of architecture and the set it was drawn from.

    Raises:
        UsageError: if there are not so many.
    """
    import numpy as np

    generator = np.random.default_rng(seed)
    rest = list(sets[1:]) or [sets[0]]
    half = count if len(sets) == 1 else (count + 1) // 2
    wanted = [sets[0]] * half + [rest[i % len(rest)] for i in range(count - half)]
    chosen: dict[str, str] = {}
    for letters in wanted:
        space = SearchSpace(letters, num_layers)
        for _ in range(1000):
            candidate = space.sample(generator)
            if candidate not in chosen:
                chosen[candidate] = letters
                break
        else:
            raise UsageError(
                f"--architectures {count}: {num_layers} layers of {letters!r} do not "
                "have so many"
            )
    return list(chosen.items())
