"""Answers about models: metadata and status, as messages and as JSON."""

from collections.abc import Sequence
from typing import Any

from google.protobuf import json_format
from tensorflow_serving.apis import get_model_metadata_pb2, get_model_status_pb2

from serving.server.inference import Inference, ModelSpec
from serving.server.json_responses import to_json
from serving.server.repository import VersionStatus
from serving.server.status import Code, invalid_argument

SIGNATURE_DEF = "signature_def"


def metadata(
    inference: Inference, spec: ModelSpec, fields: Sequence[str]
) -> get_model_metadata_pb2.GetModelMetadataResponse:
    """Returns the signatures of a loaded version.

    Args:
        inference: finds the version.
        spec: which one.
        fields: what is asked for; only ``signature_def`` exists.

    Raises:
        ServingError: for another field, or a version that is not loaded.
    """
    if not fields:
        raise invalid_argument(
            "GetModelMetadataRequest must specify at least one metadata_field"
        )
    for field in fields:
        if field != SIGNATURE_DEF:
            raise invalid_argument(f"Metadata field {field} is not supported")
    response = get_model_metadata_pb2.GetModelMetadataResponse()
    with inference.model(spec) as model:
        response.model_spec.name = spec.name
        response.model_spec.version.value = model.version
        signatures = get_model_metadata_pb2.SignatureDefMap()
        for name, definition in model.servable.meta_graph.signature_def.items():
            signatures.signature_def[name].CopyFrom(definition)
    response.metadata[SIGNATURE_DEF].Pack(signatures)
    return response


def metadata_json(
    response: get_model_metadata_pb2.GetModelMetadataResponse,
) -> bytes:
    """Returns a metadata answer as TF Serving's REST API writes it."""
    signatures = get_model_metadata_pb2.SignatureDefMap()
    response.metadata[SIGNATURE_DEF].Unpack(signatures)
    return to_json(
        {
            "model_spec": _to_dict(response.model_spec),
            "metadata": {SIGNATURE_DEF: _to_dict(signatures)},
        }
    )


def status(
    statuses: Sequence[VersionStatus],
) -> get_model_status_pb2.GetModelStatusResponse:
    """Returns the state of versions as a message."""
    response = get_model_status_pb2.GetModelStatusResponse()
    for version in statuses:
        entry = response.model_version_status.add(
            version=version.version, state=int(version.state)
        )
        entry.status.error_code = version.error.code if version.error else Code.OK
        entry.status.error_message = version.error.message if version.error else ""
    return response


def status_json(response: get_model_status_pb2.GetModelStatusResponse) -> bytes:
    """Returns a status answer as TF Serving's REST API writes it."""
    return to_json(_to_dict(response))


def _to_dict(message: Any) -> dict[str, Any]:
    result: dict[str, Any] = json_format.MessageToDict(
        message,
        always_print_fields_with_no_presence=True,
        preserving_proto_field_name=True,
    )
    return result
