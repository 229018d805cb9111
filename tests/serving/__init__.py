"""Tests of the servers' API, the embedded server, its clients and deployment files.

The cases of exports and servers that people reported in the field, and their tests:

- X07, no versions found: `tests/export/test_saved_model.py` (numbers of versions),
  `test_repository` (what cannot start is named);
- X09, more than max_batch_size: `test_deploy` (the shipped file), `test_client`
  (splitting, in order);
- X11, a full queue: `test_client` (tries, waits, the final error), `test_batching`
  (503 with Retry-After);
- X12, warm-up: `tests/export/test_warm_up.py`, `test_repository` (a failing one);
- X14, documented commands: `test_docs`, on an export of this project;
- X15, padding: `tests/export/test_saved_model.py`, `test_own_exports` (batches).
"""
