"""Puts the clients into the wheel: ``serving/rest_client.py`` as a module of it.

In a checkout they belong to the application `serving`, a name too general for
site-packages.
"""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

CLIENT_MODULES = ("client", "grpc_client", "rest_client", "retry", "wire_messages")


class BuildWithClients(build_py):
    """Builds the package, then adds the clients to it."""

    def run(self) -> None:
        """Copies the modules; their imports name the package that they are in."""
        super().run()
        target = Path(self.build_lib) / "lvbert_runtime"
        target.mkdir(parents=True, exist_ok=True)
        for name in CLIENT_MODULES:
            source = Path(f"{name}.py").read_text(encoding="utf-8")
            source = source.replace("from serving.", "from lvbert_runtime.")
            source = source.replace("`serving.", "`lvbert_runtime.")
            (target / f"{name}.py").write_text(source, encoding="utf-8")


setup(cmdclass={"build_py": BuildWithClients})
