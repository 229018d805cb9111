"""LVBertElectra: replaced-token detection (Clark et al., 2020) for LV-BERT."""

from typing import Any

import keras
import tensorflow as tf

from lvbert_tf.distribution import num_replicas, replica_id, sum_over_replicas
from lvbert_tf.layers.arguments import check_weights
from lvbert_tf.layers.dropout import dropout_seed, salted_dropout
from lvbert_tf.layers.encoder import Encoder
from lvbert_tf.layers.heads import MaskedLMHead, ReplacedTokenHead
from lvbert_tf.models.backbone import LVBertBackbone
from lvbert_tf.models.masked_lm import LVBertMaskedLM
from lvbert_tf.models.objectives import (
    histogram,
    masked_lm_sums,
    sample_tokens,
    scatter_tokens,
    step_seed,
)
from lvbert_tf.models.preset_model import PresetModel
from lvbert_tf.models.pretraining import (
    DENOMINATOR_EPSILON,
    Batch,
    apply_gradients,
    batch_seed,
    encoder_inputs,
    global_denominator,
    refuse_float16,
)
from lvbert_tf.models.retracing import guard_traces, retraces, unchanged
from lvbert_tf.presets import generator_sizes

HISTOGRAM_BINS = 200
DETECTION_COUNTS = ("replaced", "called_replaced", "found")
"""Tokens that were replaced, that the discriminator called so, and both."""

_SAMPLING_SALT = 0x5EED
_GENERATOR_SALT = 0x6E4E


@keras.saving.register_keras_serializable(package="lvbert_tf")
@retraces(
    watched=("generator_weight", "discriminator_weight"),
    fixed=("generator_fraction",),
)
class LVBertElectra(PresetModel):
    """A generator that fills masked tokens and a discriminator that detects them.

    Both have the same architecture and share the embedding tables with their
    LayerNorm; the generator is narrower. The loss is
    `generator_weight * masked LM + discriminator_weight * replaced-token detection`;
    no gradient flows through the sampled tokens.

    Args:
        discriminator: the encoder that pretraining is for.
        generator_fraction: width of the generator relative to the discriminator.
        generator_weight: weight of the masked-LM loss.
        discriminator_weight: weight of the detection loss.
        **kwargs: `name` and `trainable`.

    Call arguments:
        inputs: a batch, see `lvbert_tf.models.pretraining`.
        training: whether to drop.

    Returns:
        dict: `mlm_logits` (B, P, V), `corrupted_ids` int32 (B, T), `labels` int32
        (B, T), 1 where a token was replaced by another, and `logits` (B, T), positive
        where the discriminator takes a token for replaced.

    Raises:
        ValueError: if `generator_fraction` is not in (0, 1].
    """

    exported = "a task model around its `discriminator`"

    def __init__(
        self,
        discriminator: LVBertBackbone,
        generator_fraction: float = 0.25,
        generator_weight: float = 1.0,
        discriminator_weight: float = 50.0,
        **kwargs: Any,
    ) -> None:
        check_weights(
            generator_fraction=generator_fraction,
            generator_weight=generator_weight,
            discriminator_weight=discriminator_weight,
        )
        if not 0 < generator_fraction <= 1:
            raise ValueError(
                "`generator_fraction` must be above 0 and at most 1. "
                f"Received: generator_fraction={generator_fraction}"
            )
        # A batch and the variables stay what they are, whatever the precision: each
        # layer casts for itself, and weights and sums are float32.
        super().__init__(dtype=discriminator.dtype_policy.variable_dtype, **kwargs)
        self.discriminator = discriminator
        self.generator_fraction = generator_fraction
        self.generator_weight = generator_weight
        self.discriminator_weight = discriminator_weight
        self.run_seed = 0
        dtype = discriminator.dtype_policy
        sizes = generator_sizes(discriminator.hidden_dim, generator_fraction)
        self.generator = Encoder(
            discriminator.architecture,
            *sizes,
            kernel_size=discriminator.kernel_size,
            dropout=discriminator.dropout,
            attention_dropout=discriminator.attention_dropout,
            mask_convolution=discriminator.mask_convolution,
            approximate_gelu=discriminator.approximate_gelu,
            dtype=dtype,
            name="generator",
        )
        self.generator_head = MaskedLMHead(
            discriminator.vocabulary_size,
            discriminator.embedding_dim,
            dtype=dtype,
            name="generator_head",
        )
        self.discriminator_head = ReplacedTokenHead(
            discriminator.hidden_dim, dtype=dtype, name="discriminator_head"
        )
        self.generator.build((None, None, discriminator.embedding_dim))
        self.generator_head.build((None, None, sizes.hidden_dim))
        self.discriminator_head.build((None, None, discriminator.hidden_dim))
        self.built = True
        guard_traces(self)

    def generator_hidden(self, batch: Batch, training: bool = False) -> Any:
        """Returns the generator's hidden states (B, T, H_generator)."""
        # The discriminator drops from the same embeddings, and other values.
        with salted_dropout(_GENERATOR_SALT):
            embedded = self.discriminator.embeddings(
                batch["token_ids"], batch["segment_ids"], training=training
            )
            return self.generator(
                embedded, padding_mask=batch["padding_mask"], training=training
            )

    def mlm_logits(self, batch: Batch, training: bool = False) -> Any:
        """Returns the generator's logits (B, P, V)."""
        return self.generator_head(
            self.generator_hidden(batch, training),
            batch["mask_positions"],
            self.discriminator.token_embedding.embeddings,
            training=training,
        )

    def corrupt(self, batch: Batch, sampled_ids: Any) -> tuple[Any, Any]:
        """Returns the text with sampled tokens, and where it differs from the original.

        Args:
            batch: the masked batch.
            sampled_ids: int32 (B, P), the generator's tokens.

        Returns:
            int32 (B, T) tokens; int32 (B, T) labels, 1 for replaced. A sample that
            equals the original is not a replacement.
        """
        places = (batch["mask_positions"], batch["mask_weights"])
        original = scatter_tokens(
            batch["token_ids"], places[0], batch["mask_ids"], places[1]
        )
        corrupted = scatter_tokens(original, places[0], sampled_ids, places[1])
        return corrupted, tf.cast(tf.not_equal(corrupted, original), tf.int32)

    def detection_logits(
        self, batch: Batch, corrupted_ids: Any, training: bool = False
    ) -> Any:
        """Returns the discriminator's logits (B, T) for a corrupted text."""
        inputs = {**encoder_inputs(batch), "token_ids": corrupted_ids}
        hidden = self.discriminator(inputs, training=training)
        return self.discriminator_head(hidden, training=training)

    def call(self, inputs: Batch, training: bool = False) -> dict[str, Any]:
        """Runs generator, sampling and discriminator on a batch."""
        logits = self.mlm_logits(inputs, training)
        sampled = sample_tokens(logits, self._uniform(inputs))
        corrupted, labels = self.corrupt(inputs, sampled)
        return {
            "mlm_logits": logits,
            "corrupted_ids": corrupted,
            "labels": labels,
            "logits": self.detection_logits(inputs, corrupted, training),
        }

    def _uniform(self, batch: Batch) -> Any:
        """Returns float32 (B, P), a function of (seed, step, example, slot) only."""
        positions = batch["mask_positions"]
        rows, slots = tf.unstack(tf.shape(positions))
        seed = step_seed(self.run_seed ^ _SAMPLING_SALT, batch["step"][0])
        everyone = tf.random.stateless_uniform((rows * num_replicas(), slots), seed)
        start = rows * tf.cast(replica_id(), tf.int32)
        return everyone[start : start + rows]

    def losses_of(
        self, batch: Batch, outputs: dict[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        """Returns this replica's share of the loss, and the sums for the metrics."""
        masked = masked_lm_sums(outputs["mlm_logits"], batch)
        logits = outputs["logits"]
        if logits.dtype != tf.float64:
            logits = tf.cast(logits, tf.float32)
        labels = outputs["labels"]
        weights = tf.cast(batch["padding_mask"], logits.dtype)
        targets = tf.cast(labels, logits.dtype)
        detection = tf.reduce_sum(
            weights
            * tf.nn.sigmoid_cross_entropy_with_logits(labels=targets, logits=logits)
        )
        loss = self.generator_weight * masked.loss_all / tf.cast(
            global_denominator(batch["mask_weights"]), masked.loss_all.dtype
        ) + self.discriminator_weight * detection / global_denominator(weights)
        called = tf.cast(logits > 0, weights.dtype)
        sums = {
            "mlm_loss": masked.loss,
            "mlm_correct": masked.correct,
            "masked_tokens": masked.weight,
            "mlm_loss_all": masked.loss_all,
            "mlm_correct_all": masked.correct_all,
            "predicted_tokens": masked.weight_all,
            "disc_loss": detection,
            "tokens": tf.reduce_sum(weights),
            "replaced": tf.reduce_sum(weights * targets),
            "called_replaced": tf.reduce_sum(weights * called),
            "found": tf.reduce_sum(weights * called * targets),
        }
        return loss, sums

    def train_step(self, data: Batch) -> dict[str, Any]:
        """Trains both networks on one batch.

        Raises:
            ValueError: if the layers compute in float16.
        """
        refuse_float16(self, self.discriminator.dtype_policy)
        data = unchanged(self, data)
        with tf.GradientTape() as tape, dropout_seed(batch_seed(self.run_seed, data)):
            outputs = self(data, training=True)
            loss, sums = self.losses_of(data, outputs)
        step = apply_gradients(self, tape, loss)
        return {**self.metrics_from(_summed(sums)), **step}

    def test_step(self, data: Batch) -> dict[str, Any]:
        """Returns sums over one batch, without dropout; see `metrics_from`."""
        data = unchanged(self, data)
        outputs = self(data, training=False)
        _, sums = self.losses_of(data, outputs)
        sums["disc_histogram"] = histogram(
            tf.sigmoid(tf.cast(outputs["logits"], tf.float32)),
            outputs["labels"],
            tf.cast(data["padding_mask"], tf.float32),
            HISTOGRAM_BINS,
        )
        return _summed(sums)

    def metrics_from(self, sums: dict[str, Any]) -> dict[str, Any]:
        """Returns means and rates from the sums of one or of many batches.

        `generator_loss` and `mlm_accuracy` are those at positions that show [MASK];
        with `_all`, over all predicted positions, as training weighs them. Precision
        and recall of the discriminator are `found / called_replaced` and
        `found / replaced`, where those are not 0: the counts can be added up over
        batches, their ratios cannot.
        """

        def ratio(part: str, whole: str) -> Any:
            return sums[part] / (sums[whole] + DENOMINATOR_EPSILON)

        generator_loss_all = ratio("mlm_loss_all", "predicted_tokens")
        discriminator_loss = ratio("disc_loss", "tokens")
        wrong = (
            sums["called_replaced"] - sums["found"] + sums["replaced"] - sums["found"]
        )
        return {
            "loss": self.generator_weight * generator_loss_all
            + self.discriminator_weight * discriminator_loss,
            "generator_loss": ratio("mlm_loss", "masked_tokens"),
            "generator_loss_all": generator_loss_all,
            "discriminator_loss": discriminator_loss,
            "mlm_accuracy": ratio("mlm_correct", "masked_tokens"),
            "mlm_accuracy_all": ratio("mlm_correct_all", "predicted_tokens"),
            "discriminator_accuracy": 1.0
            - wrong / (sums["tokens"] + DENOMINATOR_EPSILON),
            **{
                name: sums[name]
                for name in ("masked_tokens", "predicted_tokens", *DETECTION_COUNTS)
            },
        }

    def generator_masked_lm(self, preprocessor: Any = None) -> LVBertMaskedLM:
        """Returns the generator and its head as a model of its own, weights copied.

        Args:
            preprocessor: of the new model; see `LVBertMaskedLM`.
        """
        shared, options = self.discriminator, self.generator.options
        backbone = LVBertBackbone(
            shared.vocabulary_size,
            shared.architecture,
            shared.embedding_dim,
            options.hidden_dim,
            options.intermediate_dim,
            options.num_heads,
            kernel_size=options.kernel_size,
            dropout=shared.dropout,
            attention_dropout=options.attention_dropout,
            max_sequence_length=shared.max_sequence_length,
            num_segments=shared.num_segments,
            mask_convolution=options.mask_convolution,
            approximate_gelu=options.approximate_gelu,
            dtype=shared.dtype_policy,
        )
        model = LVBertMaskedLM(backbone, preprocessor)
        for source, target in (
            (shared.embeddings, backbone.embeddings),
            (self.generator, backbone.encoder),
            (self.generator_head, model.masked_lm_head),
        ):
            target.set_weights(source.get_weights())
        return model

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        config = super().get_config()
        config.pop("dtype")
        return {
            **config,
            "discriminator": keras.saving.serialize_keras_object(self.discriminator),
            "generator_fraction": self.generator_fraction,
            "generator_weight": self.generator_weight,
            "discriminator_weight": self.discriminator_weight,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "LVBertElectra":
        """Rebuilds the pair from `get_config()`."""
        config = dict(config)
        config.pop("dtype", None)
        config["discriminator"] = keras.saving.deserialize_keras_object(
            config["discriminator"]
        )
        return cls(**config)


def _summed(sums: dict[str, Any]) -> dict[str, Any]:
    return dict(zip(sums, sum_over_replicas(list(sums.values())), strict=True))
