"""The tiny models and their exports."""

from typing import Any

import pytest

from tests.export.models import Artefacts, session_artefacts


@pytest.fixture(scope="session")
def artefacts(tmp_path_factory: pytest.TempPathFactory) -> Artefacts:
    """What the tests of exports share."""
    return session_artefacts(tmp_path_factory)


@pytest.fixture(scope="session")
def classifier(artefacts: Artefacts) -> Any:
    """The plain classifier, loaded as a user would."""
    import lvbert_tf

    return lvbert_tf.LVBertTextClassifier.from_preset(str(artefacts.model()))
