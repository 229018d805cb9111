"""LVBertMaskedLMPreprocessor: raw strings to masked inputs and their targets."""

from typing import Any

import keras
import tensorflow as tf
from keras_hub.models import MaskedLMPreprocessor
from keras_hub.src.utils.tensor_utils import preprocessing_function

from lvbert_tf.masking import default_max_predictions, mask_tokens
from lvbert_tf.models.backbone import LVBertBackbone
from lvbert_tf.models.text_classifier_preprocessor import tokenize_and_pack
from lvbert_tf.models.tokenizer import LVBertTokenizer


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
        super().__init__(
            tokenizer,
            sequence_length=sequence_length,
            mask_selection_rate=mask_selection_rate,
            **kwargs,
        )

    def build(self, input_shape: Any) -> None:
        """Nothing to create; the base class would create packer and masker."""
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
