"""The embedded server: SavedModels behind the TensorFlow Serving REST and gRPC API.

`serving.server.embedded.EmbeddedServer` is what others start; the rest of the
package is its parts, one job per module:

    embedded: http_front (rest), grpc_front
    both of them: inference
    inference: repository and batching
    both of them: servable

TensorFlow is imported by `servable` and by what handles its protocol buffers,
never by this file.
"""
