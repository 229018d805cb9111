"""A plain PyTorch fine-tuning loop with dynamic padding, in an environment of its own.

Reads {rows, vocabulary, batch, window} as JSON from stdin; prints examples a second.
"""

import json
import sys
import time

import torch
from transformers import (
    BertTokenizerFast,
    ElectraConfig,
    ElectraForSequenceClassification,
)


def main() -> None:
    """Trains over the rows once; the first three steps are not timed."""
    given = json.load(sys.stdin)
    tokenizer = BertTokenizerFast(vocab_file=given["vocabulary"])
    # The sizes of ELECTRA-small, weights drawn at random: speed does not need them.
    model = ElectraForSequenceClassification(
        ElectraConfig(
            embedding_size=128,
            hidden_size=256,
            intermediate_size=1024,
            num_attention_heads=4,
            num_hidden_layers=12,
        )
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    model.train()
    size, seconds, examples = given["batch"], 0.0, 0
    rows = given["rows"]
    for index, start in enumerate(range(0, len(rows), size)):
        part = rows[start : start + size]
        began = time.perf_counter()
        inputs = tokenizer(
            [row[0] for row in part],
            padding=True,
            truncation=True,
            max_length=given["window"],
            return_tensors="pt",
        )
        loss = model(**inputs, labels=torch.tensor([row[-1] for row in part])).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if index >= 3:
            seconds += time.perf_counter() - began
            examples += len(part)
    print(json.dumps({"examples_per_second": examples / seconds}))


main()
