"""The search: what may be proposed, what is proposed next, which route is trained.

It never sees a model: it proposes architectures and is told their scores. Nothing here
imports TensorFlow, except `sampling.route_tensor` when it is called.
"""
