"""``python -m training``: the table of commands."""

import sys

from common.command_line import Command, run_application

COMMANDS = {
    "prepare": Command(
        "training.commands.prepare",
        "turn text files into a vocabulary and training records",
    ),
    "supernet": Command(
        "training.commands.supernet",
        "train the weight-sharing supernet, one random path a step",
    ),
    "search": Command(
        "training.commands.search", "search the supernet for the best architecture"
    ),
    "extract": Command(
        "training.commands.extract",
        "take one architecture out of a supernet as a model",
    ),
    "evaluate": Command(
        "training.commands.evaluate",
        "score architectures with a supernet's inherited weights",
    ),
    "rank-check": Command(
        "training.commands.rank_check",
        "compare inherited accuracy with trainings from scratch",
    ),
    "random-baseline": Command(
        "training.commands.random_baseline",
        "train random architectures and take the best",
    ),
    "latency": Command(
        "training.commands.latency",
        "measure what a layer of each type costs on this machine",
    ),
    "pretrain": Command(
        "training.commands.pretrain",
        "pretrain one architecture (ELECTRA or masked LM)",
    ),
    "finetune": Command(
        "training.commands.finetune", "fine-tune a pretrained model on a task"
    ),
    "glue-score": Command(
        "training.commands.glue_score", "average the tasks of GLUE as the paper does"
    ),
    "predict": Command(
        "training.commands.predict", "label a file of texts with a fine-tuned model"
    ),
    "predict-glue": Command(
        "training.commands.predict_glue",
        "write, or check, a submission to the GLUE server",
    ),
    "predict-squad": Command(
        "training.commands.predict_squad", "answer, or check, a file of SQuAD questions"
    ),
    "quickstart": Command(
        "training.commands.quickstart",
        "the whole journey, from raw text to served answers",
    ),
}


def main() -> int:
    """Runs the command that the process's arguments name."""
    return run_application(
        "python -m training",
        "LV-BERT from raw text to a fine-tuned model.",
        COMMANDS,
    )


if __name__ == "__main__":
    sys.exit(main())
