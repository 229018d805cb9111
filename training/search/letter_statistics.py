"""Which letter stands where in the best candidates of several searches."""

from collections.abc import Mapping, Sequence
from typing import Any

from lvbert_tf.search.space import FREE


def letter_counts(architectures: Sequence[str], letters: str) -> dict[str, list[int]]:
    """Returns how many of the architectures have each letter at each position."""
    return {
        letter: [
            letters_of.count(letter) for letters_of in zip(*architectures, strict=True)
        ]
        for letter in letters
    }


def letter_statistics(
    tops: Mapping[str, Sequence[str]], letters: str, pattern: str
) -> dict[str, Any]:
    """Counts letters by position over the top candidates of several searches.

    The paper saw dynamic convolution gather in the two bottom layers and
    self-attention in the top one; both places are counted by themselves.

    Args:
        tops: name of a search to its top candidates, best first.
        letters: of the space.
        pattern: a letter for each position that was fixed, `?` for a free one.

    Returns:
        `searches` and `candidates`, how many there are; `counts`, letter to the number
        at each position; `fixed`, position (from 1) to the letter that was given there;
        `bottom_two_layers` and `top_layer`, letter to its count there, with `of`, the
        number of places, `expected_share`, letter to what the pattern and even chance
        at free positions give, and `searches_led`, in how many searches the letter is
        the most frequent there; `winners`, the best of each search.
    """
    everyone = [candidate for top in tops.values() for candidate in top]
    return {
        "searches": len(tops),
        "candidates": len(everyone),
        "counts": letter_counts(everyone, letters),
        "fixed": {str(i): x for i, x in enumerate(pattern, start=1) if x != FREE},
        "bottom_two_layers": _place(tops, letters, pattern, slice(0, 2)),
        "top_layer": _place(tops, letters, pattern, slice(-1, None)),
        "winners": {name: top[0] for name, top in tops.items() if top},
    }


def _place(
    tops: Mapping[str, Sequence[str]], letters: str, pattern: str, where: slice
) -> dict[str, Any]:
    letters_of = {
        name: "".join(candidate[where] for candidate in top)
        for name, top in tops.items()
    }
    everything = "".join(letters_of.values())
    places = pattern[where]
    return {
        "expected_share": {
            letter: sum(
                1.0 / len(letters) if place == FREE else float(place == letter)
                for place in places
            )
            / len(places)
            for letter in letters
        },
        "counts": {letter: everything.count(letter) for letter in letters},
        "of": len(everything),
        "searches_led": {
            letter: sum(
                text.count(letter) > max(text.count(a) for a in letters if a != letter)
                if len(letters) > 1
                else bool(text)
                for text in letters_of.values()
            )
            for letter in letters
        },
    }
