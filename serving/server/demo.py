"""A page to try the models by hand: ``serve --demo``."""

import json
import logging
import threading
from pathlib import Path
from typing import Any

from serving.server.inference import Inference, Model, ModelSpec
from serving.server.servable import DEFAULT_SIGNATURE
from serving.server.status import ServingError, invalid_argument
from serving.server.token_view import TokenView

_log = logging.getLogger(__name__)

PAGE = Path(__file__).parents[1] / "demo" / "index.html"
_MANIFEST = Path("assets.extra") / "manifest.json"


class Demo:
    """What the page asks for beside the API.

    Args:
        inference: finds the models.
    """

    def __init__(self, inference: Inference) -> None:
        self._inference = inference
        self._page = PAGE.read_bytes()
        self._lock = threading.Lock()
        # Of one version each: the newest that was asked for.
        self._views: dict[str, tuple[Path, TokenView | None]] = {}

    def answer(self, method: str, path: str, body: bytes) -> tuple[str, bytes] | None:
        """Answers a request of the page; None: it is none.

        Returns:
            Content type and body.

        Raises:
            ServingError: if the model is not there or the body is wrong.
        """
        if method == "GET" and path == "/":
            return "text/html; charset=utf-8", self._page
        if method == "GET" and path == "/demo/models":
            return "application/json", json.dumps({"models": self._models()}).encode()
        if method == "POST" and path == "/demo/tokens":
            return "application/json", json.dumps(self._tokens(body)).encode()
        return None

    def _models(self) -> list[dict[str, Any]]:
        models = []
        for name in sorted(self._inference.repository.available()):
            try:
                with self._inference.model(ModelSpec(name)) as model:
                    signature = model.servable.signatures.get(DEFAULT_SIGNATURE)
                    inputs = [] if signature is None else list(signature.inputs)
                    if inputs not in (["text"], ["text", "text_pair"]):
                        continue
                    manifest = _manifest(model)
                    labels = _find(manifest, "labels") or []
            except ServingError:
                continue
            models.append({"name": name, "pairs": len(inputs) == 2, "labels": labels})
        return models

    def _tokens(self, body: bytes) -> dict[str, Any]:
        try:
            document = json.loads(body)
            name, text = document["model"], document["text"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise invalid_argument(f"expected model and text: {error!r}") from None
        if not isinstance(name, str) or not isinstance(text, str):
            raise invalid_argument("expected model and text to be strings")
        self._inference.limits.check_text("text", len(text.encode(errors="replace")))
        with self._inference.model(ModelSpec(name)) as model:
            view = self._view(name, model)
            limit = _find(_manifest(model), "sequence_length")
            if view is None:
                return {"tokens": None, "limit": limit}
            tokens = view.tokens(text.encode(errors="replace").decode())
        return {"tokens": ["[CLS]", *tokens, "[SEP]"], "limit": limit}

    def _view(self, name: str, model: Model) -> TokenView | None:
        with self._lock:
            path, view = self._views.get(name, (None, None))
            if path != model.servable.path:
                try:
                    view = TokenView(model.servable)
                except LookupError as error:
                    _log.info("the demo cannot show tokens: %s", error)
                    view = None
                self._views[name] = (model.servable.path, view)
            return view


def _manifest(model: Model) -> dict[str, Any]:
    try:
        manifest = json.loads((model.servable.path / _MANIFEST).read_text())
    except (OSError, ValueError):
        return {}
    return manifest if isinstance(manifest, dict) else {}


def _find(document: Any, key: str) -> Any:
    """Returns the first value under a key, however deep; None: nowhere."""
    if isinstance(document, dict):
        if key in document:
            return document[key]
        for value in document.values():
            inner = _find(value, key)
            if inner is not None:
                return inner
    return None
