"""A systemd spawner that makes accounts as it starts servers."""

from __future__ import annotations

from typing import Any

from systemdspawner import SystemdSpawner

from tljh import user


class UserCreatingSpawner(SystemdSpawner):
    def start(self) -> Any:
        self.username_template = f"jupyter-{self.user.name}"
        user.ensure_user(self.username_template)
        self.disable_user_sudo = not self.user.admin
        return super().start()
