"""models.config, batching.config, monitoring.config: what is read, what is refused."""

import contextlib
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.command_line import UsageError
from serving.serve import _follow
from serving.server.batching_config import (
    BatchingConfig,
    read_batching_config,
    read_monitoring_config,
)
from serving.server.model_config import (
    All,
    Latest,
    ModelConfig,
    Specific,
    parse_model_argument,
    read_models_config,
)
from serving.server.text_proto import (
    BatchingParameters,
    MonitoringConfig,
    parse_text_proto,
)


def written(folder: Path, text: str) -> Path:
    path = folder / "file.config"
    path.write_text(text)
    return path


def test_batching_fields(tmp_path: Path) -> None:
    text = """
    # a comment
    max_batch_size { value: 16 }  batch_timeout_micros: { value: 500 }
    num_batch_threads < value: 3 >, max_enqueued_batches { value: 7 };
    allowed_batch_sizes: [4, 8]
    enable_large_batch_splitting { value: true }
    max_execution_batch_size { value: 8 }
    pad_variable_length_inputs: false
    thread_pool_name { value: 'mine' }
    """
    config = read_batching_config(written(tmp_path, text))
    assert config == BatchingConfig(16, 500, 3, 7, (4, 8), True, 8)
    assert [config.padded_size(size) for size in (1, 4, 5, 8)] == [4, 4, 8, 8]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("max_batch_size { value: 0 }", ["max_batch_size", "at least 1", "0"]),
        ("max_batch_size {}", ["max_batch_size", "at least 1", "0"]),
        ("batch_timeout_micros { value: -1 }", ["batch_timeout_micros", "-1"]),
        ("\nmax_batch_size: 8", [":2:", "max_batch_size", 'Expected "{"']),
        ("max_batch_size { size: 8 }", [":1:", "size"]),
        (
            "max_batch_size { value: 8 } max_batch_size { value: 8 }",
            [":1:", "multiple"],
        ),
        ("max_batchsize { value: 8 }", [":1:", "max_batchsize", "max_batch_size"]),
        ("pad_variable_length_inputs: true", ["[CLS]", "pad_variable_length_inputs"]),
        ("allowed_batch_sizes: 8 allowed_batch_sizes: 4", ["ascending", "[8, 4]"]),
        ("allowed_batch_sizes: 0", ["allowed_batch_sizes", "at least 1"]),
        (
            "max_batch_size { value: 16 } allowed_batch_sizes: 8",
            ["largest batch (16)", "Received: 8"],
        ),
        ("max_execution_batch_size { value: 8 }", ["enable_large_batch_splitting"]),
        ("max_batch_size { value: 8", [":1:", 'Expected "}"']),
        ("max_batch_size { value: }", [":1:", "}"]),
        ("max_batch_size { value 8 }", [":1:", 'Expected ":"']),
        ("max_batch_size @ 8", [":1:", "@"]),
        ("num_batch_threads { value: many }", [":1:", "many"]),
        ("num_batch_threads { value: 99999999999999999999 }", [":1:", "out of range"]),
    ],
)
def test_batching_errors(tmp_path: Path, text: str, parts: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        read_batching_config(written(tmp_path, text))
    assert str(tmp_path) in str(caught.value)
    for part in parts:
        assert part in str(caught.value)


def test_missing_files_are_named(tmp_path: Path) -> None:
    for read in (read_batching_config, read_monitoring_config, read_models_config):
        with pytest.raises(UsageError, match="nowhere"):
            read(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('prometheus_config { enable: true path: "/m" }', "/m"),
        ("prometheus_config: { enable: true }", "/monitoring/prometheus/metrics"),
        ("prometheus_config { }", None),
        ("", None),
    ],
)
def test_monitoring(tmp_path: Path, text: str, expected: str | None) -> None:
    assert read_monitoring_config(written(tmp_path, text)) == expected


@pytest.mark.parametrize(
    "text",
    [
        'prometheus_config { enable: true path: "m" }',
        "prometheus_config { enable: maybe }",
        "prometheus_config { port: 1 }",
        "prometheus: true",
    ],
)
def test_monitoring_errors(tmp_path: Path, text: str) -> None:
    with pytest.raises(
        UsageError, match=r"file\.config:(1:\d+ :| prometheus_config: path)"
    ):
        read_monitoring_config(written(tmp_path, text))


@given(
    st.one_of(
        st.text(alphabet="ab_{}<>[]:\"'#\\ \n,;1-.é", max_size=40),
        st.lists(
            st.sampled_from(
                [
                    *("max_batch_size", "allowed_batch_sizes", "path", "value"),
                    *("{", "}", "<", "[1,", ":", "#", "\n"),
                    *("1", "-1", "9" * 30, '"\\x"', "true"),
                ]
            ),
            max_size=12,
        ).map(" ".join),
    )
)
def test_any_text_is_read_or_a_usage_error(text: str) -> None:
    # Any other exception fails the test.
    for message in (BatchingParameters(), MonitoringConfig()):
        with contextlib.suppress(UsageError):
            parse_text_proto(Path("some.config"), text, message)


def test_models_config(tmp_path: Path) -> None:
    text = """model_config_list {
      config { name: "a" base_path: "/m/a" model_version_policy { all {} } }
      config { name: "b" base_path: "/m/b"
               model_version_policy { latest { num_versions: 2 } } }
      config { name: "c" base_path: "/m/c" model_platform: "tensorflow"
               model_version_policy { specific { versions: 7 versions: 3 } }
               version_labels { key: "stable" value: 3 } }
      config { name: "d" base_path: "/m/d" }
    }"""
    models = read_models_config(written(tmp_path, text))
    assert [model.policy for model in models] == [
        All(),
        Latest(2),
        Specific((7, 3)),
        Latest(1),
    ]
    assert models[2].labels == {"stable": 3}
    present = [1, 9, 3, 7]
    assert [model.wanted(present) for model in models] == [
        [1, 3, 7, 9],
        [7, 9],
        [3, 7],
        [9],
    ]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("model_config_list { config { nam: 'x' } }", "file.config:1:30"),
        ("custom_model_config {}", "model_config_list"),
        ("", "Received: nothing"),
        ("model_config_list {}", "at least one config"),
        ("model_config_list { config { base_path: '/m' } }", "name: expected"),
        ("model_config_list { config { name: 'a' base_path: 'm' } }", "absolute"),
        (
            "model_config_list { config { name: 'a' base_path: '/m' "
            "model_platform: 'torch' } }",
            "Received: 'torch'",
        ),
        (
            "model_config_list { config { name: 'a' base_path: '/m' } "
            "config { name: 'a' base_path: '/n' } }",
            "second model",
        ),
        (
            "model_config_list { config { name: 'a' base_path: '/m' "
            "model_version_policy { specific {} } } }",
            "at least one version",
        ),
    ],
)
def test_models_config_errors(tmp_path: Path, text: str, part: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_models_config(written(tmp_path, text))
    assert part in str(caught.value)
    assert "file.config" in str(caught.value)


def test_a_followed_file_may_vanish_and_come_back(tmp_path: Path) -> None:
    """As an editor or a config map replaces it."""
    text = "model_config_list {{ config {{ name: '{}' base_path: '/m' }} }}"
    path = written(tmp_path, text.format("a"))
    refresh = _follow(path)
    assert refresh() is None
    other = tmp_path / "other"
    other.write_text(text.format("b"))
    # Of the same size, and made to look as old.
    status = path.stat()
    os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
    path.unlink()
    with pytest.raises(UsageError, match=r"file\.config: cannot be read"):
        refresh()
    other.rename(path)
    assert [model.name for model in refresh() or ()] == ["b"]
    assert refresh() is None


def test_model_argument(tmp_path: Path) -> None:
    assert parse_model_argument("clf=/m=x") == ModelConfig("clf", Path("/m=x"))
    assert parse_model_argument("clf=here").base_path.is_absolute()
    for wrong in ("clf", "=x", "clf=", "a/b=x", "a:b=x"):
        with pytest.raises(UsageError, match="NAME=BASE"):
            parse_model_argument(wrong)
