"""Versions that come, go, break, and get a label."""

import shutil
import time
from pathlib import Path

from tests.serving.stress.record import Record

_CONFIG = """model_config_list {{ config {{
  name: "clf" base_path: "{base}" model_platform: "tensorflow"
  model_version_policy {{ all {{}} }}
  version_labels {{ key: "stable" value: {stable} }}
}} }}
"""


class Changes:
    """Publishes versions, breaks one, moves the label.

    Args:
        folder: holds ``config``, ``clf/1`` and what is copied as later versions.
        record: takes what was done and when.
    """

    def __init__(self, folder: Path, record: Record) -> None:
        self._folder = folder
        self._record = record
        self._version = 1

    def next(self) -> None:
        """Publishes the next version, moves the label to it, retires older ones."""
        version = self._version = self._version + 1
        base = self._folder / "clf"
        if version % 5 == 0:
            (base / f"{version}.tmp").mkdir()
            (base / f"{version}.tmp" / "saved_model.pb").write_bytes(b"broken")
            (base / f"{version}.tmp").rename(base / str(version))
            self._record.events.append((self._record.now(), "broken"))
            self._version = version
            self._broken = base / str(version)
            return
        partial = base / f"{version}.tmp"
        shutil.copytree(self._folder / ("odd" if version % 2 else "even"), partial)
        partial.rename(base / str(version))
        # Moved before the version is loaded: until then it means the old one.
        write_config(self._folder, base, version)
        self._record.events.append((self._record.now(), "swap"))
        time.sleep(3)
        for old in sorted(int(p.name) for p in base.iterdir() if p.name.isdigit()):
            if old < version:
                shutil.rmtree(base / str(old))


def write_config(folder: Path, base: Path, stable: int) -> None:
    """Writes the configuration whose label ``stable`` is a version, at once."""
    partial = folder / "config.tmp"
    partial.write_text(_CONFIG.format(base=base, stable=stable))
    partial.rename(folder / "config")
