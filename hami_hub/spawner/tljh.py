"""The systemd spawner for The Littlest JupyterHub, which makes an account for everybody who starts a server.

Only TLJH has what is imported here; `hami_hub.tljh` is the plugin that names this class.
"""

from __future__ import annotations

from tljh import user
from tljh.normalize import generate_system_username
from tljh.user_creating_spawner import UserCreatingSpawner

from .systemd import GpuSystemdSpawner


class GpuUserCreatingSpawner(GpuSystemdSpawner, UserCreatingSpawner):  # type: ignore[misc]
    """Starts each server as a systemd unit of the person's own account, on a slice of a card.

    Admins of a TLJH have sudo, and root gets out of any slice: make only those admins who may have the whole card.
    """

    def prepare(self) -> None:
        """Make the account, as TLJH does when a server starts: a slice has to know whose it is before that."""
        self.username_template = generate_system_username(f"jupyter-{self.user.name}")
        user.ensure_user(self.username_template)
        super().prepare()
