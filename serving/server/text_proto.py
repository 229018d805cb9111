"""Reads protocol buffer text files, also those whose messages have no Python stub.

`tensorflow-serving-api` ships no stubs for the batching and the monitoring file. Their
messages are built here from descriptors with the same names and types, so that
protobuf's own `text_format` reads these files, too.
"""

from pathlib import Path
from typing import Any

from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    message_factory,
    text_format,
    wrappers_pb2,
)

from common.command_line import UsageError

# Of tensorflow_serving/config/monitoring_config.proto and
# tensorflow_serving/servables/tensorflow/session_bundle_config.proto. Numbers do not
# matter in text.
_WRAPPED = {
    ".google.protobuf.Int64Value": (
        "max_batch_size",
        "batch_timeout_micros",
        "max_enqueued_batches",
        "num_batch_threads",
        "max_execution_batch_size",
    ),
    ".google.protobuf.StringValue": ("thread_pool_name",),
    ".google.protobuf.BoolValue": ("enable_large_batch_splitting",),
}


def _files() -> descriptor_pb2.FileDescriptorProto:
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="lvbert_tf/serving.proto",
        package="lvbert_tf.serving",
        syntax="proto3",
        dependency=[wrappers_pb2.DESCRIPTOR.name],
    )

    def add(message: Any, name: str, kind: int, type_name: str | None = None) -> Any:
        return message.field.add(
            name=name,
            number=len(message.field) + 1,
            type=kind,
            type_name=type_name,
            label=field.LABEL_OPTIONAL,
        )

    batching = file.message_type.add(name="BatchingParameters")
    for type_name, names in _WRAPPED.items():
        for name in names:
            add(batching, name, field.TYPE_MESSAGE, type_name)
    sizes = add(batching, "allowed_batch_sizes", field.TYPE_INT64)
    sizes.label = field.LABEL_REPEATED
    add(batching, "pad_variable_length_inputs", field.TYPE_BOOL)
    prometheus = file.message_type.add(name="PrometheusConfig")
    add(prometheus, "enable", field.TYPE_BOOL)
    add(prometheus, "path", field.TYPE_STRING)
    monitoring = file.message_type.add(name="MonitoringConfig")
    kind = f".{file.package}.PrometheusConfig"
    add(monitoring, "prometheus_config", field.TYPE_MESSAGE, kind)
    return file


def _build() -> dict[str, Any]:
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(wrappers_pb2.DESCRIPTOR.serialized_pb)
    file = _files()
    pool.AddSerializedFile(file.SerializeToString())
    return {
        message.name: message_factory.GetMessageClass(
            pool.FindMessageTypeByName(f"{file.package}.{message.name}")
        )
        for message in file.message_type
    }


_CLASSES = _build()
BatchingParameters: Any = _CLASSES["BatchingParameters"]
MonitoringConfig: Any = _CLASSES["MonitoringConfig"]


def read_text_proto(path: Path, message: Any) -> None:
    """Reads a file in protocol buffer text format into a message.

    Raises:
        UsageError: naming the file, the line, and what is wrong there.
    """
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from None
    parse_text_proto(path, text, message)


def parse_text_proto(path: Path, text: str, message: Any) -> None:
    """Reads a text into a message; `path` is only named in errors.

    Raises:
        UsageError: naming the file, the line, and what is wrong there.
    """
    try:
        text_format.Parse(text, message)
    except text_format.ParseError as error:
        known = ""
        if "has no field named" in str(error):
            fields = sorted(field.name for field in message.DESCRIPTOR.fields)
            known = f" Fields of {message.DESCRIPTOR.name}: {', '.join(fields)}"
        raise UsageError(f"{path}:{error}{known}") from None
    except (RecursionError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from None
