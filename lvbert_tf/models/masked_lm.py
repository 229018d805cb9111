"""LVBertMaskedLM: fills masked tokens; also the objective `mlm` of pretraining."""

from collections.abc import Sequence
from typing import Any

import keras
import keras_hub
import tensorflow as tf

from lvbert_tf.layers.arguments import check_known, positive_integers
from lvbert_tf.layers.dropout import dropout_seed
from lvbert_tf.layers.heads import MaskedLMHead
from lvbert_tf.models.backbone import LVBertBackbone
from lvbert_tf.models.encoder_task import EncoderTask
from lvbert_tf.models.masked_lm_preprocessor import LVBertMaskedLMPreprocessor
from lvbert_tf.models.objectives import MaskedLMSums, masked_lm_sums
from lvbert_tf.models.parts import check_parts
from lvbert_tf.models.pretraining import (
    Batch,
    apply_gradients,
    batch_seed,
    encoder_inputs,
    global_denominator,
    is_pretraining_batch,
    masked_lm_means,
    masked_lm_totals,
    refuse_float16,
)
from lvbert_tf.models.retracing import guard_traces, retraces, unchanged


class MaskedLM(EncoderTask, keras_hub.models.MaskedLM):
    """KerasHub's masked LM, trained on checked and shuffled arrays."""


@keras.saving.register_keras_serializable(package="lvbert_tf")
@retraces()
class LVBertMaskedLM(MaskedLM):
    """A backbone with the masked-language-modelling head.

    Args:
        backbone: the encoder.
        preprocessor: turns raw strings into inputs and targets; or None.
        **kwargs: `name` and `trainable`.

    Call arguments:
        inputs: the backbone's inputs and `mask_positions`, int32 (B, P).

    Returns:
        Logits (B, P, V) of the original tokens at the masked positions.

    `fit` takes raw strings (with a preprocessor), or a dataset of pretraining batches
    (dicts with `mask_ids` and `mask_weights`), which it trains on with the
    pretraining step shared with `LVBertElectra`.
    """

    backbone_cls = LVBertBackbone
    preprocessor_cls = LVBertMaskedLMPreprocessor
    targets_from_texts = True

    def __init__(
        self, backbone: LVBertBackbone, preprocessor: Any = None, **kwargs: Any
    ) -> None:
        check_known(self, kwargs)
        check_parts(backbone, preprocessor, LVBertMaskedLMPreprocessor)
        # === Layers ===
        self.backbone = backbone
        self.preprocessor = preprocessor
        self.masked_lm_head = MaskedLMHead(
            backbone.vocabulary_size,
            backbone.embedding_dim,
            dtype=backbone.dtype_policy,
            name="masked_lm_head",
        )
        # === Functional model ===
        inputs = {
            **backbone.input,
            "mask_positions": keras.Input(
                (None,), dtype="int32", name="mask_positions"
            ),
        }
        hidden = backbone(backbone.input)
        outputs = self.masked_lm_head(
            hidden, inputs["mask_positions"], backbone.token_embedding.embeddings
        )
        super().__init__(inputs=inputs, outputs=outputs, **kwargs)
        self.run_seed = 0
        self._has_own_figures = False
        guard_traces(self)

    def get_metrics_result(self) -> dict[str, Any]:
        """Returns the compiled metrics; none for steps on pretraining batches.

        Those report figures of their own and leave the compiled metrics unbuilt.
        """
        result: dict[str, Any] = (
            {} if self._has_own_figures else super().get_metrics_result()
        )
        return result

    def train_step(self, data: Any) -> dict[str, Any]:
        """Trains on one batch: of pretraining, or what `fit` made of raw strings."""
        self._has_own_figures = is_pretraining_batch(data)
        if not self._has_own_figures:
            result: dict[str, Any] = super().train_step(data)
            return result
        refuse_float16(self, self.backbone.dtype_policy)
        data = unchanged(self, data)
        denominator = global_denominator(data["mask_weights"])
        with tf.GradientTape() as tape, dropout_seed(batch_seed(self.run_seed, data)):
            sums = self._sums(data, training=True)
            loss = sums.loss_all / denominator
        return {**masked_lm_means(sums), **apply_gradients(self, tape, loss)}

    def test_step(self, data: Any) -> dict[str, Any]:
        """Returns sums over one batch of pretraining, or the metrics of `evaluate`."""
        self._has_own_figures = is_pretraining_batch(data)
        if not self._has_own_figures:
            result: dict[str, Any] = super().test_step(data)
            return result
        return masked_lm_totals(self._sums(data, training=False))

    def fill(
        self, texts: Sequence[str], top_k: int = 5
    ) -> list[list[list[tuple[str, float]]]]:
        """Proposes tokens for every literal `[MASK]` in some texts.

        Args:
            texts: strings, each with at least one `[MASK]`.
            top_k: proposals for each mask, most probable first.

        Returns:
            For each text, for each of its masks, (token, probability).

        Raises:
            ValueError: without a preprocessor; for a text without a mask, or too long;
                if `top_k` is not between 1 and the vocabulary's size.
        """
        if self.preprocessor is None:
            raise ValueError(
                "`fill` needs a model with a preprocessor. Received: preprocessor=None"
            )
        vocabulary = self.preprocessor.tokenizer.get_vocabulary()
        (top_k,) = positive_integers(top_k=top_k)
        if top_k > len(vocabulary):
            raise ValueError(
                f"`top_k` must be between 1 and {len(vocabulary)}. "
                f"Received: top_k={top_k}"
            )
        inputs = self.preprocessor.blanks(texts)
        weights = inputs.pop("mask_weights")
        if not len(weights):
            return []
        logits = tf.cast(self(inputs, training=False), tf.float32)
        probabilities, tokens = tf.math.top_k(tf.nn.softmax(logits), top_k)
        return [
            [
                [(vocabulary[i], float(p)) for i, p in zip(ids, shares, strict=True)]
                for ids, shares, used in zip(*row, strict=True)
                if used
            ]
            for row in zip(tokens.numpy(), probabilities.numpy(), weights, strict=True)
        ]

    def _sums(self, batch: Batch, training: bool) -> MaskedLMSums:
        inputs = {**encoder_inputs(batch), "mask_positions": batch["mask_positions"]}
        logits = self(inputs, training=training)
        return masked_lm_sums(logits, batch)
