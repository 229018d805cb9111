"""Set-up that must come before TensorFlow is imported."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")

from hypothesis import settings

# A core that others use makes an example slow now and then: no fault of the code.
settings.register_profile("no_deadline", deadline=None)
settings.load_profile("no_deadline")
