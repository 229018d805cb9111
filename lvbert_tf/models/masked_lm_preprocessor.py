"""LVBertMaskedLMPreprocessor: raw strings to masked inputs and their targets."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras_hub.models import MaskedLMPreprocessor
from keras_hub.src.utils.tensor_utils import preprocessing_function

from lvbert_tf.layers.arguments import check_weights, positive_integers
from lvbert_tf.masking import default_max_predictions, mask_tokens
from lvbert_tf.models.backbone import LVBertBackbone
from lvbert_tf.models.fresh_heads import length_that_fits
from lvbert_tf.models.rows import text_list
from lvbert_tf.models.text_classifier_preprocessor import tokenize_and_pack
from lvbert_tf.models.tokenizer import LVBertTokenizer
from lvbert_tf.vocabulary import MASK_TOKEN


@keras.saving.register_keras_serializable(package="lvbert_tf")
class LVBertMaskedLMPreprocessor(MaskedLMPreprocessor):
    """Tokenizes, packs and masks raw strings for `LVBertMaskedLM`.

    Masks are drawn anew in every call, with the rules of pretraining: 15% of the
    tokens, of which 85% become [MASK].

    Args:
        tokenizer: the tokenizer.
        sequence_length: tokens T of every example.
        mask_selection_rate: share of the tokens to predict.
        **kwargs: arguments of the base class, such as `name`.

    Call arguments:
        x: strings (B,), or a tuple of two such for pairs.

    Returns:
        Inputs with `mask_positions` (B, P); targets `mask_ids` (B, P); weights (B, P).
    """

    backbone_cls = LVBertBackbone
    tokenizer_cls = LVBertTokenizer

    def __init__(
        self,
        tokenizer: LVBertTokenizer,
        sequence_length: int = 128,
        mask_selection_rate: float = 0.15,
        **kwargs: Any,
    ) -> None:
        (sequence_length,) = positive_integers(sequence_length=sequence_length)
        check_weights(mask_selection_rate=mask_selection_rate)
        if not 0 < mask_selection_rate < 1:
            raise ValueError(
                "`mask_selection_rate` must be above 0 and below 1. Received: "
                f"mask_selection_rate={mask_selection_rate}"
            )
        super().__init__(
            tokenizer,
            sequence_length=sequence_length,
            mask_selection_rate=mask_selection_rate,
            **kwargs,
        )

    @classmethod
    def _add_missing_kwargs(cls, loader: Any, kwargs: dict[str, Any]) -> Any:
        # KerasHub's hook for a preset that was saved without this preprocessor.
        length_that_fits(loader, kwargs, default=128)
        return super()._add_missing_kwargs(loader, kwargs)

    def build(self, input_shape: Any) -> None:
        """Creates nothing; the base class would create packer and masker."""
        self.built = True

    @preprocessing_function
    def call(self, x: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Preprocesses a batch; targets come from the text itself."""
        inputs = tokenize_and_pack(self.tokenizer, x, self.sequence_length)
        masked = mask_tokens(
            inputs["token_ids"],
            inputs["padding_mask"],
            seed=tf.random.uniform((2,), maxval=tf.int32.max, dtype=tf.int32),
            special=self.tokenizer.special,
            mask_probability=self.mask_selection_rate,
            max_predictions=default_max_predictions(
                self.sequence_length, self.mask_selection_rate
            ),
        )
        inputs = {
            **inputs,
            "token_ids": masked["token_ids"],
            "mask_positions": masked["mask_positions"],
        }
        return keras.utils.pack_x_y_sample_weight(
            inputs, masked["mask_ids"], masked["mask_weights"]
        )

    def blanks(self, texts: Sequence[str]) -> dict[str, Any]:
        """Returns inputs in which every literal `[MASK]` is one masked token.

        Args:
            texts: strings (B,).

        Returns:
            The model's inputs as numpy arrays; `mask_positions` int32 (B, P), P the
            most masks of a text, and `mask_weights` float32 (B, P), 0 where a text has
            fewer.

        Raises:
            ValueError: if a text has no mask, or is so long that one would be cut off.
        """
        texts = text_list(texts, "texts")
        special = self.tokenizer.special
        rows = []
        for i, text in enumerate(texts):
            parts = self.tokenizer.tokenize_strings(
                tf.constant(text.split(MASK_TOKEN))
            ).to_list()
            if len(parts) < 2:
                raise ValueError(
                    f"`texts` must each hold {MASK_TOKEN}. Received: {text!r:.80} as "
                    f"text {i}"
                )
            body = [*parts[0]]
            for part in parts[1:]:
                body += [special.mask, *part]
            limit = self.sequence_length - 2
            if special.mask in body[limit:]:
                raise ValueError(
                    f"`texts` must have every {MASK_TOKEN} among the first {limit} "
                    f"tokens, which `sequence_length={self.sequence_length}` holds. "
                    f"Received: {len(body)} tokens in text {i}"
                )
            rows.append([special.cls, *body[:limit], special.sep])
        width = max(map(len, rows), default=0)
        ids = np.full((len(rows), width), special.pad, "int32")
        for row, tokens in zip(ids, rows, strict=True):
            row[: len(tokens)] = tokens
        places = [np.flatnonzero(row == special.mask) for row in ids]
        most = max(map(len, places), default=0)
        positions = np.zeros((len(rows), most), "int32")
        for row, masks in zip(positions, places, strict=True):
            row[: len(masks)] = masks
        lengths = np.array([[len(tokens)] for tokens in rows]).reshape(-1, 1)
        return {
            "token_ids": ids,
            "segment_ids": np.zeros_like(ids),
            "padding_mask": (np.arange(width) < lengths).astype("int32"),
            "mask_positions": positions,
            "mask_weights": (positions > 0).astype("float32"),
        }

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        config: dict[str, Any] = super().get_config()
        for name in (
            "truncate",
            "mask_selection_length",
            "mask_token_rate",
            "random_token_rate",
        ):
            config.pop(name, None)
        return config
