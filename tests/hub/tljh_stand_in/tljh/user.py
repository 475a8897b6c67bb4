"""Accounts, made when somebody needs one."""

from __future__ import annotations

import pwd
import subprocess


def ensure_user(username: str) -> None:
    try:
        pwd.getpwnam(username)
    except KeyError:
        subprocess.run(["useradd", "--create-home", username], check=True)
