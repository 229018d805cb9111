"""Finds what ``--input`` names: files, or data sets of the Hugging Face hub."""

from collections.abc import Sequence

from training.data.corpus import Source, find_files
from training.data.hub_datasets import PREFIX, hub_sources


def find_sources(inputs: Sequence[str]) -> list[Source]:
    """Returns the corpus in the order of `inputs`.

    Args:
        inputs: see `find_files`; names with the prefix ``hf:``, see `hub_sources`.

    Raises:
        UsageError: naming the input that is not there.
    """
    sources: list[Source] = []
    for given in inputs:
        if given.startswith(PREFIX):
            sources += hub_sources(given)
        else:
            sources += find_files([given])
    # A file that is named twice is read once.
    seen: dict[str, Source] = {}
    for source in sources:
        seen.setdefault(str(source.identity()), source)
    return list(seen.values())
