"""The application that turns a model directory into SavedModel and ONNX artefacts."""
