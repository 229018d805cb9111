"""A user's own layer type works everywhere, from one file of theirs."""

import subprocess
import sys
from pathlib import Path

from tests.paths import REPOSITORY


def test_a_new_letter_works_in_strings_cost_files_supernet_and_search(
    tmp_path: Path,
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.lvbert_tf.use_of_a_user_layer", str(tmp_path)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("ok")
