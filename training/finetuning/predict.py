"""``predict``: labels and scores for a file of texts."""

import io
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from common.command_line import UsageError
from common.compression import split_suffixes
from common.files import write_text
from common.labelled_tables.bad_rows import BadRows
from common.labelled_tables.examples import (
    LabelledExample,
    TableOptions,
    read_labelled_table,
)
from common.labelled_tables.lines import read_lines
from training.finetuning.trained import Trained, load_trained, outputs_of


def run(
    model: Path, source: Path, output: Path, options: TableOptions
) -> dict[str, Any]:
    """Writes a TSV with a row for each text, in their order.

    Args:
        model: directory that `finetune` wrote.
        source: a table (TSV, CSV, JSON lines), or ``.txt``: a text on each line.
        output: the TSV: the label, the score of each class (or the number), the texts
            with single spaces for white space.
        options: how to read a table.

    Returns:
        `texts`, `output`, `labels` (how often each is predicted), `remarks`.

    Raises:
        UsageError: if model or file is not as expected.
    """
    trained = load_trained(model)
    if trained.kind == "span":
        raise UsageError(
            f"--model {model}: answers questions; `predict-squad` takes it"
        )
    examples = _read(source, options, trained)
    texts = [example.texts for example in examples]
    outputs, remarks = outputs_of(trained, texts, str(source))
    for remark in remarks:
        print(f"warning: {remark}", file=sys.stderr)
    names = list(trained.model.labels or ())
    columns = ["text", "text_pair"][: len(texts[0])]
    out = io.StringIO()
    scores = [f"score_{_cell(name)}" for name in names] or ["score"]
    out.write("\t".join(["label", *scores, *columns]) + "\n")
    counts: dict[str, int] = {}
    for row, example in zip(outputs, texts, strict=True):
        label = _label(row, names, trained.kind)
        counts[label] = counts.get(label, 0) + 1
        cells = [_cell(label), *(f"{value:.6g}" for value in row)]
        out.write("\t".join([*cells, *map(_cell, example)]) + "\n")
    output.parent.mkdir(parents=True, exist_ok=True)
    write_text(output, out.getvalue())
    return {
        "output": str(output),
        "texts": len(texts),
        "labels": counts if names else None,
        "remarks": remarks,
    }


def _read(
    source: Path, options: TableOptions, trained: Trained
) -> list[LabelledExample]:
    if split_suffixes(source.name)[0] == ".txt":
        if trained.pairs:
            raise UsageError(
                f"{source}: the model takes pairs: expected a table with the columns "
                "text and text_pair, found a file of lines"
            )
        bad = BadRows(str(source))
        lines = read_lines(source, bad)
        for line in lines:
            if not line.text.strip():
                bad.add(line.number, "expected a text, found none")
        bad.settle(skip=options.skip_bad_rows)
        texts = [line for line in lines if line.text.strip()]
        if not texts:
            raise UsageError(f"{source}: expected at least one text, found none")
        return [LabelledExample((line.text,), "", line.number) for line in texts]
    pair = (options.pair_column or "text_pair") if trained.pairs else ""
    return read_labelled_table(source, replace(options, pair_column=pair)).examples


def _label(row: Any, names: list[str], kind: str) -> str:
    if not names:
        return f"{row[0]:.6g}"
    if kind == "multi_label":
        chosen = [n for n, value in zip(names, row, strict=True) if value > 0.5]
        return ",".join(chosen)
    return names[int(row.argmax())]


def _cell(text: str) -> str:
    return " ".join(text.split())
