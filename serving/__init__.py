"""Serving: an embedded server that speaks the TensorFlow Serving API, and clients."""
