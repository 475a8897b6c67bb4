"""What `hami-hub demo` tells the hub that it starts: by environment, read by `demo_config.py`."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

ENV_SETTINGS = "HAMI_DEMO"
# Set for the hub and everything it starts: by it, what an earlier demo left behind is known.
ENV_FOLDER = "HAMI_DEMO_DIR"

ADMIN = "admin"
PEOPLE = ("alice", "bob", "carol")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One demo.

    Attributes:
        folder: what is kept: password, log, homes.
        state: folder on tmpfs, gone with the demo: slices, simulated cards.
        port: where browsers go, on 127.0.0.1.
        hub_port, proxy_port: free ports for what hub, proxy and servers say to each other.
        password: of every account.
    """

    folder: str
    state: str
    port: int
    hub_port: int
    proxy_port: int
    password: str

    @property
    def url(self) -> str:
        """What to open in a browser."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def hub_url(self) -> str:
        """Where proxy and servers find the hub."""
        return f"http://127.0.0.1:{self.hub_port}"

    @property
    def homes(self) -> Path:
        """The folder of the accounts' homes."""
        return Path(self.folder) / "homes"

    def environment(self) -> dict[str, str]:
        """The variables that carry all this."""
        return {ENV_SETTINGS: json.dumps(asdict(self)), ENV_FOLDER: self.folder}

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Settings:
        """The settings of the demo that started this process.

        Raises:
            KeyError: none did.
        """
        return cls(**json.loads(environment[ENV_SETTINGS]))
