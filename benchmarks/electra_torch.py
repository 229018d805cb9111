"""ELECTRA-small of `transformers`: exported to ONNX and timed; for a Python of its own.

``python electra_torch.py FILE SHAPES`` needs torch, transformers, onnx, onnxscript and
onnxruntime, and nothing of this project. It prints PyTorch's time divided by that of
the graph in onnxruntime for every shape, both measured in turn.
"""

import json
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from transformers import ElectraConfig, ElectraForSequenceClassification

ROUNDS = 7


class Scores(torch.nn.Module):  # type: ignore[misc]
    """The classifier with the inputs' names and order of this project."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Any, segment_ids: Any, padding_mask: Any) -> Any:
        """Returns probabilities (B, 2)."""
        outputs = self.model(
            input_ids=input_ids, token_type_ids=segment_ids, attention_mask=padding_mask
        )
        return torch.softmax(outputs.logits, dim=-1)


def main(
    file: Path,
    batches: list[int],
    lengths: list[int],
    most_tokens: int | None,
    threads: int,
) -> dict[str, float]:
    """Exports the model, random weights, unless the file is there, and times it."""
    torch.manual_seed(0)
    options = onnxruntime.SessionOptions()
    if threads:
        torch.set_num_threads(threads)
        options.intra_op_num_threads = threads
    # The sizes of google/electra-small-discriminator.
    config = ElectraConfig(
        vocab_size=30522,
        embedding_size=128,
        hidden_size=256,
        num_hidden_layers=12,
        num_attention_heads=4,
        intermediate_size=1024,
        num_labels=2,
    )
    model = Scores(ElectraForSequenceClassification(config)).eval()
    names = ("input_ids", "segment_ids", "padding_mask")
    example = tuple(torch.ones(2, 16, dtype=torch.int64) for _ in names)
    axes = {name: {0: "batch", 1: "sequence"} for name in names}
    if not file.exists():
        with torch.inference_mode():
            torch.onnx.export(
                model,
                example,
                str(file),
                input_names=list(names),
                output_names=["scores"],
                dynamic_axes={**axes, "scores": {0: "batch"}},
                opset_version=18,
                dynamo=False,
            )
    session = onnxruntime.InferenceSession(
        str(file), options, providers=["CPUExecutionProvider"]
    )
    ratios = {}
    for batch in batches:
        for length in lengths:
            if most_tokens and batch * length > most_tokens:
                continue
            ids = np.random.default_rng(0).integers(5, 30522, (batch, length))
            arrays = dict(zip(names, (ids, ids * 0, ids * 0 + 1), strict=True))
            tensors = [torch.from_numpy(array) for array in arrays.values()]
            times: dict[str, list[float]] = {"torch": [], "onnx": []}
            with torch.inference_mode():
                for _ in range(ROUNDS if batch * length < 4000 else 3):
                    for name, call in (
                        ("torch", partial(model, *tensors)),
                        ("onnx", partial(session.run, None, arrays)),
                    ):
                        call()  # what the other left running ends meanwhile
                        start = time.perf_counter()
                        call()
                        times[name].append(time.perf_counter() - start)
            torch_s, onnx_s = (min(values) for values in times.values())
            ratios[f"{batch}x{length}"] = torch_s / onnx_s
    return ratios


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), *json.loads(sys.argv[2]))))
