"""What is suspicious about labelled texts: counted, and told in sentences."""

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Sequence

from common.labelled_tables.examples import LabelledExample, number_problem

_MISSING = frozenset({"nan", "null", "none", "na", "n/a", "#n/a", ""})
SCORES_FROM = 20
"""From so many different numbers on, labels look like scores instead of classes."""


def conflicting_texts(examples: Sequence[LabelledExample]) -> int:
    """Returns how many different texts stand there with more than one label."""
    labels: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for example in examples:
        labels[example.texts].add(example.label)
    return sum(len(kinds) > 1 for kinds in labels.values())


def overlap(
    train: Sequence[LabelledExample], dev: Sequence[LabelledExample]
) -> tuple[int, int]:
    """Returns how many examples of `dev` are in `train`: texts, and with their label.

    White space around texts makes no difference.
    """
    texts = {_stripped(example) for example in train}
    rows = {(_stripped(example), example.label) for example in train}
    return (
        sum(_stripped(example) in texts for example in dev),
        sum((_stripped(example), example.label) in rows for example in dev),
    )


def remarks_on_labels(file: str, labels: Sequence[str]) -> list[str]:
    """Returns sentences about classes that may be one, or none.

    Args:
        file: what they call the file.
        labels: of its rows.
    """
    counts = Counter(labels)
    remarks = []
    alike: dict[str, list[str]] = defaultdict(list)
    for label in counts:
        folded = " ".join(unicodedata.normalize("NFKC", label).casefold().split())
        alike[folded].append(label)
    for names in alike.values():
        if len(names) > 1:
            listed = ", ".join(f"{n!r} ({counts[n]} rows)" for n in sorted(names))
            remarks.append(
                f"{file}: labels that differ in case, Unicode form or white space only "
                f"are different classes: {listed}"
            )
    for name in sorted(counts):
        if name.lower() in _MISSING:
            remarks.append(
                f"{file}: {counts[name]} rows have the label {name!r}, which often "
                "means that there is none; here it is a class"
            )
    return remarks


def remarks_on_examples(
    train_file: str,
    train: Sequence[LabelledExample],
    dev_file: str,
    dev: Sequence[LabelledExample],
) -> tuple[dict[str, int], list[str]]:
    """Returns counts of what is suspicious, and a sentence for each that is not 0."""
    seen, seen_with_label = overlap(train, dev)
    counts = {
        "dev_texts_in_train": seen,
        "dev_texts_in_train_with_label": seen_with_label,
        "conflicting_texts_train": conflicting_texts(train),
        "conflicting_texts_dev": conflicting_texts(dev),
    }
    remarks = []
    if seen:
        remarks.append(
            f"{dev_file}: {seen} of {len(dev)} texts are in {train_file} too "
            f"({seen_with_label} with the same label): figures on them measure memory"
        )
    for file, name in ((train_file, "train"), (dev_file, "dev")):
        count = counts[f"conflicting_texts_{name}"]
        if count:
            remarks.append(f"{file}: {count} texts stand there with different labels")
    if len(dev) < 30:
        remarks.append(
            f"{dev_file}: {len(dev)} rows; figures of so few say next to nothing"
        )
    return counts, remarks


def look_like_scores(labels: Sequence[str]) -> bool:
    """Returns whether labels are numbers, many of them or with fractions."""
    different = set(labels)
    if any(number_problem(label) for label in different):
        return False
    fractions = any(not float(label).is_integer() for label in different)
    return len(different) > SCORES_FROM or (fractions and len(different) > 2)


def look_like_several(labels: Sequence[str], separator: str = ",") -> bool:
    """Returns whether cells hold several classes: their parts are cells elsewhere."""
    different = set(labels)
    several = [label for label in different if separator in label]
    parts = [{part.strip() for part in label.split(separator)} for label in several]
    return bool(several) and (
        any(kinds <= different for kinds in parts)
        or len(set().union(*parts)) < len(several)
    )


def _stripped(example: LabelledExample) -> tuple[str, ...]:
    return tuple(text.strip() for text in example.texts)
