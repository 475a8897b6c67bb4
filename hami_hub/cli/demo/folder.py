"""The folder of a demo: its password, its log, the homes of its accounts, and the lock that makes it one demo's own."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
from collections.abc import Iterable
from pathlib import Path

import click

import hami_hub

_LOCK = "lock"
_PASSWORD = "password"  # noqa: S105  a file's name
# no letters or digits that look alike
_ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"
# JupyterLab doesn't ask a newcomer about news first, nor any server elsewhere for them
_LAB = {"disabledExtensions": {"@jupyterlab/apputils-extension:announcements": True}}


class DemoFolder:
    """One demo's folder, made if it isn't there.  Every method may raise OSError: full, not writable.

    Args:
        path: where; made with its parents.

    Raises:
        click.ClickException: another demo runs in it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.path.mkdir(parents=True, exist_ok=True)
        (self.path / "homes").mkdir(exist_ok=True)
        # not inherited by what the demo starts: the lock ends with this process
        self._lock = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._take_lock()

    @property
    def log(self) -> Path:
        """Where hub, proxy and servers write."""
        return self.path / "hub.log"

    def note(self, url: str) -> None:
        """Write down where this demo is found, for a second one that is started here."""
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, url.encode(), 0)

    def password(self) -> str:
        """The password of all accounts: made once, kept in a file that only its owner can read."""
        path = self.path / _PASSWORD
        if path.is_file() and (kept := path.read_text().strip()):
            return kept
        password = "-".join("".join(secrets.choice(_ALPHABET) for _ in range(4)) for _ in range(3))
        path.unlink(missing_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(password + "\n")
        return password

    def make_homes(self, accounts: Iterable[str]) -> None:
        """A home with the validation notebooks for every account; what is there already stays as it is."""
        notebooks = sorted(notebooks_folder().glob("*.ipynb"))
        for account in accounts:
            home = self.path / "homes" / account
            home.mkdir(exist_ok=True)
            for notebook in notebooks:
                if not (home / notebook.name).exists():
                    shutil.copy(notebook, home)
            lab = home / ".jupyter" / "labconfig" / "page_config.json"
            if not lab.exists():
                lab.parent.mkdir(parents=True, exist_ok=True)
                lab.write_text(json.dumps(_LAB, indent=2))

    def forget_hub(self) -> None:
        """Remove the hub's database: it knows servers that ended with the demo before this one."""
        (self.path / "hub.sqlite").unlink(missing_ok=True)

    def _take_lock(self) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            where = os.pread(self._lock, 200, 0).decode(errors="replace")
            raise click.ClickException(
                f"A demo runs in {self.path} already{f': {where}' if where else ''}. "
                "Use that one, end it with Ctrl-C, or name another folder with --dir."
            ) from None


def notebooks_folder() -> Path:
    """The validation notebooks: of the source tree that runs, or else those in the installed package."""
    source = Path(str(hami_hub.__file__)).parent.parent
    if (source / "pyproject.toml").is_file() and (source / "notebooks").is_dir():
        return source / "notebooks"
    for folder in hami_hub.__path__:
        if (Path(folder) / "_notebooks").is_dir():
            return Path(folder) / "_notebooks"
    raise click.ClickException(
        "The validation notebooks are not in the installed package. Install it with `pip install .`."
    )
