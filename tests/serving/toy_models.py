"""Small SavedModels for the server's tests, built in seconds.

`save_classifier` has the signatures of the project's exported classifier: a real
tokenizer in the graph, an embedding average and a softmax. `save_numbers` has numeric
signatures only.
"""

import shutil
import time
from collections.abc import Sequence
from pathlib import Path

import tensorflow as tf
import tensorflow_text as tf_text
from tensorflow_serving.apis import prediction_log_pb2

VOCABULARY = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "good", "bad", "movie", "##s")
LABELS = ("negative", "positive")
_WIDTH = 4


class ToyClassifier(tf.Module):
    """Averages token embeddings; different seeds answer differently."""

    def __init__(self, seed: int, guarded: bool = True) -> None:
        super().__init__()
        self._tokenizer = tf_text.FastBertTokenizer(
            list(VOCABULARY), lower_case_nfd_strip_accents=True
        )
        self._guarded = guarded
        self._embeddings = tf.Variable(
            tf.random.stateless_normal([len(VOCABULARY), _WIDTH], [seed, 1])
        )
        self._kernel = tf.Variable(
            tf.random.stateless_normal([_WIDTH, len(LABELS)], [seed, 2])
        )

    def scores(self, token_ids: tf.Tensor, padding_mask: tf.Tensor) -> tf.Tensor:
        """Token ids and mask int32 (B, T) to probabilities float32 (B, C)."""
        weights = tf.cast(padding_mask, tf.float32)[:, :, tf.newaxis]
        hidden = tf.gather(self._embeddings, token_ids) * weights
        total = tf.maximum(tf.reduce_sum(weights, axis=1), 1.0)
        mean = tf.reduce_sum(hidden, axis=1) / total
        return tf.nn.softmax(mean @ self._kernel)

    def text_scores(self, text: tf.Tensor) -> tf.Tensor:
        """Text string (B,) to probabilities float32 (B, C)."""
        if self._guarded:
            text = tf.ensure_shape(text, [None])
        tokens = self._tokenizer.tokenize(text).merge_dims(1, -1)
        mask = tf.ones_like(tokens).to_tensor(0)
        return self.scores(tf.cast(tokens.to_tensor(0), tf.int32), mask)

    @staticmethod
    def outputs(scores: tf.Tensor) -> dict[str, tf.Tensor]:
        """Adds the labels to scores."""
        label = tf.gather(tf.constant(LABELS), tf.argmax(scores, axis=-1))
        return {"scores": scores, "label": label}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def serving_default(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """The default signature."""
        return self.outputs(self.text_scores(text))

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def scores_only(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """A signature with a single output."""
        return {"scores": self.text_scores(text)}

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, None], tf.int32, name=name)
            for name in ("input_ids", "segment_ids", "padding_mask")
        ]
    )
    def tokens(
        self, input_ids: tf.Tensor, segment_ids: tf.Tensor, padding_mask: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """The signature for those who tokenize themselves."""
        return self.outputs(self.scores(input_ids + 0 * segment_ids, padding_mask))

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="inputs")])
    def classify(self, inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        """The signature for serialized Examples."""
        inputs = tf.ensure_shape(inputs, [None])
        features = {"text": tf.io.FixedLenFeature([], tf.string)}
        scores = self.text_scores(tf.io.parse_example(inputs, features)["text"])
        classes = tf.tile(tf.constant([LABELS]), [tf.shape(scores)[0], 1])
        return {"classes": classes, "scores": scores}


class ToyNumbers(tf.Module):
    """Arithmetic, and an output that says how large its batch was."""

    def __init__(self, factor: float, delay_s: float = 0.0) -> None:
        super().__init__()
        self._factor = tf.Variable(factor)
        self._delay_s = delay_s

    @tf.function(
        input_signature=[tf.TensorSpec([None, None], tf.float32, name="numbers")]
    )
    def serving_default(self, numbers: tf.Tensor) -> dict[str, tf.Tensor]:
        """Scales float32 (B, N); refuses negative numbers."""
        check = tf.debugging.assert_non_negative(numbers, "numbers must not be < 0")
        with tf.control_dependencies([check]):
            scaled = numbers * self._factor
        rows = tf.shape(numbers)[0]
        return {
            "scaled": scaled,
            "batch_size": tf.fill([rows], rows),
            "raw_bytes": tf.fill([rows], b"\xff\x00"),
        }

    @tf.function(
        input_signature=[
            tf.TensorSpec([None], tf.float64, name="double"),
            tf.TensorSpec([None], tf.int64, name="long"),
            tf.TensorSpec([None], tf.bool, name="flag"),
        ]
    )
    def echo(
        self, double: tf.Tensor, long: tf.Tensor, flag: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Returns what it gets."""
        return {"double": double + 0.0, "long": long + 0, "flag": tf.identity(flag)}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="inputs")])
    def regress(self, inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        """The signature of a regression: the feature x, scaled."""
        features = {"x": tf.io.FixedLenFeature([], tf.float32)}
        parsed = tf.io.parse_example(tf.ensure_shape(inputs, [None]), features)
        return {"outputs": parsed["x"] * self._factor}

    @tf.function(input_signature=[])
    def nothing(self) -> dict[str, tf.Tensor]:
        """A signature without inputs."""
        return {"answer": tf.constant([42])}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="numbers")])
    def slow(self, numbers: tf.Tensor) -> dict[str, tf.Tensor]:
        """Takes its time: a long loop."""

        def body(step: tf.Tensor, value: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            return step + 1, tf.sin(value + 1.0)

        steps = tf.constant(int(self._delay_s * 150_000))
        _, value = tf.while_loop(
            lambda step, value: step < steps,
            body,
            (tf.constant(0), numbers),
            parallel_iterations=1,
        )
        return {"value": value}


def save_classifier(path: Path, seed: int, guarded: bool = True) -> None:
    """Saves a classifier as the version folder `path`, in one step."""
    model = ToyClassifier(seed, guarded)
    signatures = {
        name: getattr(model, name)
        for name in ("serving_default", "scores_only", "tokens", "classify")
    }
    _save(model, path, signatures)


def save_numbers(path: Path, factor: float, delay_s: float = 0.0) -> None:
    """Saves an arithmetic model as the version folder `path`, in one step."""
    model = ToyNumbers(factor, delay_s)
    signatures = {
        name: getattr(model, name)
        for name in ("serving_default", "echo", "regress", "nothing", "slow")
    }
    _save(model, path, signatures)


def add_warm_up(path: Path, texts: Sequence[str], signature: str) -> None:
    """Writes warm-up requests beside the model in `path`."""
    folder = path / "assets.extra"
    folder.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(folder / "tf_serving_warmup_requests")) as writer:
        for text in texts:
            log = prediction_log_pb2.PredictionLog()
            request = log.predict_log.request
            request.model_spec.name = "clf"
            request.model_spec.signature_name = signature
            request.inputs["text"].CopyFrom(tf.make_tensor_proto([text]))
            writer.write(log.SerializeToString())


def _save(model: tf.Module, path: Path, signatures: dict[str, object]) -> None:
    """Saves under another name, then renames: what a careful publisher does."""
    partial = path.with_name(f"{path.name}.partial-{time.monotonic_ns()}")
    tf.saved_model.save(model, str(partial), signatures=signatures)
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(path, ignore_errors=True)
    partial.rename(path)
