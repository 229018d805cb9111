"""Options that prepare a corpus of a hundred documents."""

from pathlib import Path

from lvbert_tf.vocabulary import SPECIAL_TOKENS, write_vocabulary
from training.data.examples import ExampleOptions
from training.data.prepare_options import PrepareOptions


def small_corpus(tmp_path: Path, output: str) -> PrepareOptions:
    """Writes corpus and vocabulary into a folder, unless they are there."""
    words = [f"w{number}" for number in range(50)]
    write_vocabulary(tmp_path / "words.txt", [*SPECIAL_TOKENS, *words])
    documents = [
        "\n".join(
            " ".join(words[(n * 7 + i * j) % 50] for i in range(30)) for j in range(9)
        )
        for n in range(100)
    ]
    if not (tmp_path / "corpus.txt").exists():  # a new one would start anew
        (tmp_path / "corpus.txt").write_text("\n\n".join(documents))
    return PrepareOptions(
        inputs=[str(tmp_path / "corpus.txt")],
        output=tmp_path / output,
        vocabulary=tmp_path / "words.txt",
        examples=ExampleOptions(32),
        held_out=0.2,
        workers=1,
        shard_bytes=30_000,
    )
