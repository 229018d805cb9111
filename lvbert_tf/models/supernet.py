"""LVBertSupernet: all architectures of a length in one set of weights."""

from typing import Any

import keras
import tensorflow as tf

from lvbert_tf.architecture import Architecture, ArchitectureSpec
from lvbert_tf.layers.arguments import (
    check_flags,
    check_rates,
    positive_integers,
)
from lvbert_tf.layers.dropout import dropout_seed
from lvbert_tf.layers.embeddings import Embeddings
from lvbert_tf.layers.heads import MaskedLMHead
from lvbert_tf.layers.registry import LayerOptions
from lvbert_tf.models.backbone import LVBertBackbone
from lvbert_tf.models.masked_lm import LVBertMaskedLM
from lvbert_tf.models.objectives import MaskedLMSums, masked_lm_sums
from lvbert_tf.models.preset_model import PresetModel
from lvbert_tf.models.pretraining import (
    Batch,
    batch_seed,
    global_denominator,
    masked_lm_means,
    masked_lm_totals,
    pretraining_optimizer,
    refuse_float16,
)
from lvbert_tf.models.retracing import guard_traces, retraces, unchanged
from lvbert_tf.models.routing.encoder import RoutedEncoder
from lvbert_tf.models.routing.slots import Slots


@keras.saving.register_keras_serializable(package="lvbert_tf")
@retraces(fixed=("letters", "num_layers"))
class LVBertSupernet(PresetModel):
    """A masked language model with every layer type at every position.

    Each training step takes one path, its route, and moves only the layers on it and
    what all paths share (paper, section 3.2, equations 5 to 7). The route is part of
    the batch: `route`, int32 (B, L), every row the same, values index `letters`.

    Args:
        vocabulary_size: number of tokens V.
        letters: the layer types to choose from.
        num_layers: number of positions L.
        embedding_dim: width E of the embedding tables.
        hidden_dim: width H of the layers.
        intermediate_dim: width inside feed-forward layers.
        num_heads: heads of attention and dynamic convolution.
        kernel_size: neighbours of dynamic convolution.
        dropout: dropout rate after the embeddings and of each layer's output.
        attention_dropout: dropout rate of attention probabilities.
        max_sequence_length: longest input, in tokens.
        num_segments: number of segments.
        mask_convolution: whether dynamic convolution ignores the padding.
        dtype: dtype or dtype policy.
        **kwargs: `name` and `trainable`.

    Call arguments:
        inputs: a batch, see `lvbert_tf.models.pretraining`, with `route`.
        training: whether to drop.

    Returns:
        Logits (B, P, V) at the batch's `mask_positions`.

    Raises:
        ValueError: if a letter is unknown or named twice.
    """

    exported = "a path that `python -m training extract` takes out of it"

    def __init__(
        self,
        vocabulary_size: int,
        letters: str = "csf",
        num_layers: int = 24,
        embedding_dim: int = 128,
        hidden_dim: int = 256,
        intermediate_dim: int = 1024,
        num_heads: int = 4,
        kernel_size: int = 9,
        dropout: float = 0.1,
        attention_dropout: float = 0.1,
        max_sequence_length: int = 512,
        num_segments: int = 2,
        mask_convolution: bool = True,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        Architecture(letters)
        if len(set(letters)) != len(letters):
            raise ValueError(
                f"`letters` must differ from each other. Received: letters={letters!r}"
            )
        (
            vocabulary_size,
            num_layers,
            embedding_dim,
            hidden_dim,
            intermediate_dim,
            num_heads,
            kernel_size,
            max_sequence_length,
            num_segments,
        ) = positive_integers(
            vocabulary_size=vocabulary_size,
            num_layers=num_layers,
            embedding_dim=embedding_dim,
            hidden_dim=hidden_dim,
            intermediate_dim=intermediate_dim,
            num_heads=num_heads,
            kernel_size=kernel_size,
            max_sequence_length=max_sequence_length,
            num_segments=num_segments,
        )
        check_rates(dropout=dropout, attention_dropout=attention_dropout)
        check_flags(mask_convolution=mask_convolution)
        policy = keras.dtype_policies.get(dtype)
        # A batch and the variables stay what they are, whatever the precision: each
        # layer casts for itself, and weights and sums are float32.
        super().__init__(dtype=policy.variable_dtype, **kwargs)
        self._layer_policy = policy
        self._sizes: dict[str, Any] = {
            "vocabulary_size": vocabulary_size,
            "embedding_dim": embedding_dim,
            "hidden_dim": hidden_dim,
            "intermediate_dim": intermediate_dim,
            "num_heads": num_heads,
            "kernel_size": kernel_size,
            "dropout": dropout,
            "attention_dropout": attention_dropout,
            "max_sequence_length": max_sequence_length,
            "num_segments": num_segments,
            "mask_convolution": mask_convolution,
        }
        self.letters = letters
        self.num_layers = num_layers
        self.run_seed = 0
        self.embeddings = Embeddings(
            vocabulary_size,
            embedding_dim,
            max_sequence_length=max_sequence_length,
            num_segments=num_segments,
            dropout=dropout,
            dtype=dtype,
            name="embeddings",
        )
        options = LayerOptions(
            hidden_dim=hidden_dim,
            intermediate_dim=intermediate_dim,
            num_heads=num_heads,
            kernel_size=kernel_size,
            attention_dropout=attention_dropout,
            mask_convolution=mask_convolution,
        )
        self.encoder = RoutedEncoder(
            letters, num_layers, options, dropout, dtype=dtype, name="encoder"
        )
        self.masked_lm_head = MaskedLMHead(
            vocabulary_size, embedding_dim, dtype=dtype, name="masked_lm_head"
        )
        self.token_embedding = self.embeddings.token_embedding
        # Every layer has its weights from the start: a checkpoint can be restored, and
        # an optimizer built, before the first step.
        self.embeddings.build(None)
        self.encoder.build((None, None, embedding_dim))
        self.masked_lm_head.build((None, None, hidden_dim))
        self.built = True
        self.forget_traces()
        guard_traces(self)

    def forget_traces(self) -> None:
        """Lets the next eager call trace its graph again."""
        # Outside a graph the shapes of a position's weights would be known, and wrong
        # for the letters that the route does not take.
        self._call_in_graph = tf.function(self.call, autograph=False)
        self._train_in_graph = tf.function(self.train_step, autograph=False)

    def call(self, inputs: Batch, training: bool = False) -> Any:
        """Predicts the masked tokens: logits (B, P, V)."""
        if tf.executing_eagerly():
            return self._call_in_graph(inputs, training)
        slots = self.encoder.read_slots(inputs["route"][0])
        return self._logits(inputs, slots, training, batch_seed(self.run_seed, inputs))

    def _logits(
        self,
        batch: Batch,
        slots: list[Slots],
        training: bool,
        seed: Any,
        for_gradient: bool = False,
    ) -> Any:
        with dropout_seed(seed):
            embedded = self.embeddings(
                batch["token_ids"], batch["segment_ids"], training=training
            )
            hidden = self.encoder.encode(
                embedded,
                batch["route"][0],
                slots,
                batch["padding_mask"],
                training=training,
                for_gradient=for_gradient,
                seed=seed,
            )
            return self.masked_lm_head(
                hidden,
                batch["mask_positions"],
                self.token_embedding.embeddings,
                training=training,
            )

    def shared_variables(self) -> list[Any]:
        """Returns the trainable variables that every path uses."""
        projection = self.encoder.projection
        return [
            *self.embeddings.trainable_variables,
            *([] if projection is None else projection.trainable_variables),
            *self.masked_lm_head.trainable_variables,
        ]

    def train_step(self, data: Batch) -> dict[str, Any]:
        """Takes one step along the batch's route.

        Raises:
            ValueError: if the layers compute in float16.
        """
        refuse_float16(self, self._layer_policy)
        if tf.executing_eagerly():
            return self._train_in_graph(data)
        optimizer = pretraining_optimizer(self)
        data = unchanged(self, data)
        optimizer.build(self.trainable_variables)
        route = data["route"][0]
        shared = self.shared_variables()
        denominator = global_denominator(data["mask_weights"])
        slots = self.encoder.read_slots(route)
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            sources = [[v.value for v in shared], slots]
            tape.watch(sources)
            seed = batch_seed(self.run_seed, data)
            logits = self._logits(data, slots, True, seed, for_gradient=True)
            sums = masked_lm_sums(logits, data)
            loss = sums.loss_all / denominator
        grad_shared, grad_slots = tape.gradient(
            loss, sources, unconnected_gradients=tf.UnconnectedGradients.ZERO
        )
        flat = [*grad_shared, *tf.nest.flatten(grad_slots)]
        summed, scale, norm = optimizer.sum_and_clip(flat)
        rate = optimizer.learning_rate_after(norm)
        optimizer.update(shared, summed[: len(shared)], scale, rate)
        positions = tf.nest.pack_sequence_as(slots, summed[len(shared) :])
        self.encoder.update(optimizer, route, positions, scale, rate)
        with tf.control_dependencies([norm]):
            optimizer.finish_step()
        return {
            **masked_lm_means(sums),
            "gradient_norm": norm,
            "learning_rate": rate,
        }

    def test_step(self, data: Batch) -> dict[str, Any]:
        """Returns sums over the batch, without dropout, along the batch's route."""
        return masked_lm_totals(self._sums_of(data))

    def _sums_of(self, batch: Batch) -> MaskedLMSums:
        logits = self(batch, training=False)
        return masked_lm_sums(logits, batch)

    def extract(self, architecture: ArchitectureSpec) -> LVBertMaskedLM:
        """Returns one path as a model of its own, with the weights copied.

        Args:
            architecture: `num_layers` letters, all of `letters`.

        Raises:
            ValueError: if the path is not one of this supernet's.
        """
        parsed = self.check_architecture(architecture)
        backbone = LVBertBackbone(
            architecture=parsed, dtype=self._layer_policy, **self._sizes
        )
        model = LVBertMaskedLM(backbone)
        pairs: list[tuple[Any, Any]] = [
            (self.embeddings, backbone.embeddings),
            (self.masked_lm_head, model.masked_lm_head),
        ]
        if self.encoder.projection is not None:
            pairs.append((self.encoder.projection, backbone.encoder.projection))
        for i, letter in enumerate(parsed):
            layer = self.encoder.positions[i][self.letters.index(letter)]
            pairs.append((layer, backbone.encoder.layer_list[i]))
        for source, target in pairs:
            target.set_weights(source.get_weights())
        return model

    def check_architecture(self, architecture: ArchitectureSpec) -> Architecture:
        """Returns the parsed architecture if it is a path of this supernet.

        Raises:
            ValueError: if its length or a letter is not the supernet's.
        """
        parsed = Architecture.parse(architecture)
        foreign = sorted(set(parsed) - set(self.letters))
        if len(parsed) != self.num_layers or foreign:
            raise ValueError(
                f"`architecture` must have {self.num_layers} layers of "
                f"{list(self.letters)}. Received: {str(parsed)!r} with {len(parsed)}"
                f" layers" + (f", of which {foreign} are foreign" if foreign else "")
            )
        return parsed

    def route(self, architecture: ArchitectureSpec) -> list[int]:
        """Returns the route (L values that index `letters`) of an architecture."""
        parsed = self.check_architecture(architecture)
        return [self.letters.index(letter) for letter in parsed]

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            "dtype": keras.dtype_policies.serialize(self._layer_policy),
            **self._sizes,
            "letters": self.letters,
            "num_layers": self.num_layers,
        }
