"""``pretrain``: trains one architecture by replaced-token detection or masked LM."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lvbert_tf import (
    LVBertBackbone,
    LVBertElectra,
    LVBertMaskedLM,
    LVBertMaskedLMPreprocessor,
)
from training.data.manifest import DataManifest
from training.loop.batches import held_out_batches, training_batches
from training.loop.plan import Plan
from training.loop.train import train
from training.loop.unigram_loss import held_out_unigram_loss
from training.metrics.masked_lm import masked_lm_figures
from training.metrics.ranking import auc_from_histogram
from training.pretraining.experiment import Encoder, PretrainExperiment, PretrainModel
from training.pretraining.stage import (
    compile_model,
    finish,
    run_once,
    write_preset,
)
from training.run.directory import RunDirectory
from training.run.opening import prepare_devices

GENERATOR = "generator"
"""Folder of a model directory that holds the other network of an ELECTRA pair."""


def run(settings: PretrainExperiment, run_dir: Path) -> dict[str, Any]:
    """Pretrains a model, or goes on where an earlier call stopped.

    Args:
        settings: the experiment.
        run_dir: where everything is written; ``model/`` is then a preset directory
            with the tokenizer: of masked LM, the model with its head; of ELECTRA, the
            discriminator, and ``model/generator/`` the generator with its head.

    Returns:
        `steps`, `tokens_per_second` (padding included), `model`, and on held-out text,
        at the positions that show [MASK], `mlm_accuracy`, `unigram_loss` and the loss
        of the network that predicts tokens: `generator_loss` for ELECTRA, with
        `discriminator_loss` and `discriminator_auc`, or `loss` for masked LM.
    """
    return run_once(settings, run_dir, _train)


def _train(settings: PretrainExperiment, directory: RunDirectory) -> dict[str, Any]:
    run_options = settings.run
    distribution = prepare_devices(run_options)
    tokenizer = DataManifest.load(settings.data.directory).tokenizer()
    electra = run_options.objective == "electra"
    with distribution.strategy.scope():
        backbone = build(settings.model, tokenizer.vocabulary_size())
        preprocessor = LVBertMaskedLMPreprocessor(
            tokenizer,
            sequence_length=settings.data.sequence_length,
            mask_selection_rate=settings.data.mask_probability,
        )
        model = _with_objective(backbone, preprocessor, settings)
        compile_model(model, settings.optimizer, run_options)

    def write_model(target: Path) -> None:
        if electra:
            parts = {GENERATOR: model.generator_masked_lm(preprocessor)}
            write_preset(backbone, tokenizer, settings, target, parts)
        else:
            write_preset(model, tokenizer, settings, target)

    def summarize(sums: dict[str, Any]) -> dict[str, Any]:
        figures = electra_figures if electra else _masked_lm_figures
        return {**figures(model, sums), "unigram_loss": unigram_loss}

    unigram_loss = held_out_unigram_loss(settings.data)
    outcome = train(
        Plan(
            label="pretrain",
            model=model,
            training_batches=training_batches(
                settings.data,
                batch_size=run_options.batch_size,
                seed=run_options.seed,
                distribution=distribution,
            ),
            validation_batches=lambda: held_out_batches(
                settings.data,
                batch_size=run_options.batch_size,
                distribution=distribution,
            ),
            summarize=summarize,
            train_figures=detection_rates,
            write_model=write_model if distribution.is_chief else None,
        ),
        run_options,
        directory,
        distribution,
    )
    return finish(
        directory,
        f"pretrain ({run_options.objective})",
        outcome,
        {"architecture": backbone.architecture, **outcome.validation},
        settings,
    )


def build(model: PretrainModel, vocabulary_size: int) -> Any:
    """Returns a new `LVBertBackbone` of the configured sizes."""
    sizes = {
        field.name: getattr(model, field.name) for field in dataclasses.fields(Encoder)
    }
    return LVBertBackbone(vocabulary_size, model.architecture, **sizes, name="backbone")


def electra_figures(model: Any, sums: dict[str, Any]) -> dict[str, Any]:
    """Returns the held-out figures of an ELECTRA pair from the sums of `test_step`.

    `generator_loss` and `mlm_accuracy` are those at positions that show [MASK]. The
    area under the ROC curve is left out where nothing (or everything) was replaced.
    """
    sums = dict(sums)
    counts = sums.pop("disc_histogram")
    generator = masked_lm_figures(
        {
            "loss_sum": sums["mlm_loss"],
            "correct": sums["mlm_correct"],
            "loss_sum_all": sums["mlm_loss_all"],
            "correct_all": sums["mlm_correct_all"],
            "masked_tokens": sums["masked_tokens"],
            "predicted_tokens": sums["predicted_tokens"],
        }
    )
    figures = {
        **{name: float(value) for name, value in model.metrics_from(sums).items()},
        "generator_loss_kept": generator["loss_kept"],
        "mlm_accuracy_kept": generator["accuracy_kept"],
    }
    auc = auc_from_histogram(counts)
    if auc is not None:
        figures["discriminator_auc"] = auc
    return detection_rates(figures)


def _masked_lm_figures(model: Any, sums: dict[str, Any]) -> dict[str, Any]:
    figures = masked_lm_figures(sums)
    # The contract's names, beside those that the training curve has.
    return {
        **figures,
        "mlm_accuracy": figures["accuracy"],
        "mlm_accuracy_all": figures["accuracy_all"],
    }


def detection_rates(figures: Mapping[str, Any]) -> dict[str, Any]:
    """Puts precision and recall of a discriminator in the place of their counts.

    Args:
        figures: with `replaced`, `called_replaced` and `found`, sums over batches or
            means of such sums; or of a network that detects nothing.

    Returns:
        The figures with `discriminator_precision` and `discriminator_recall`. One that
        is undefined is None, and `undefined` says why.
    """
    rates = dict(figures)
    if "found" not in rates:
        return rates
    positives, called, replaced = (
        float(rates.pop(name)) for name in ("found", "called_replaced", "replaced")
    )
    undefined = {}
    for name, whole, reason in (
        ("discriminator_precision", called, "no token was called replaced"),
        ("discriminator_recall", replaced, "no token was replaced"),
    ):
        rates[name] = positives / whole if whole > 0 else None
        if whole <= 0:
            undefined[name] = reason
    return {**rates, "undefined": undefined} if undefined else rates


def _with_objective(
    backbone: Any, preprocessor: Any, settings: PretrainExperiment
) -> Any:
    if settings.run.objective == "mlm":
        return LVBertMaskedLM(backbone, preprocessor, name="masked_lm")
    return LVBertElectra(
        backbone,
        generator_fraction=settings.model.generator_fraction,
        name="electra",
    )
