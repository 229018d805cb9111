"""The floor under the applications: what training, export and serving share.

It is not in the wheel, and everything in it imports quickly.
"""
