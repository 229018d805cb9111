"""Pictures are drawn whole from what runs log."""

from pathlib import Path

from lvbert_tf import Architecture
from lvbert_tf.drawing import draw_architecture
from training.run.figures import draw_curves


def test_curves_and_architectures_become_pictures(tmp_path: Path) -> None:
    records = [
        {"step": step, "split": split, "loss": 1.0 / step, "note": None}
        for step in (1, 2, 3)
        for split in ("train", "validation")
    ]
    draw_curves(records, "run", tmp_path / "figures" / "curves.png")
    architecture = Architecture.parse("ccsffs")
    draw_architecture(architecture, "found", tmp_path / "architecture.png")
    for name in ("figures/curves.png", "architecture.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
    assert not list(tmp_path.rglob("*partial*"))
    draw_curves([], "nothing", tmp_path / "none.png")
    assert not (tmp_path / "none.png").exists()
