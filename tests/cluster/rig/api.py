"""The few questions that the rig itself asks the API server; tests use `Cluster.kubectl` or a client of their own."""

from __future__ import annotations

from typing import Any

import requests

from tests.cluster.rig.pki import ADMIN, Pki


class Api:
    """The API server as admin, by way of the port that leads into the cluster."""

    def __init__(self, port: int, pki: Pki) -> None:
        self.port = port
        self.url = f"https://127.0.0.1:{port}"
        self._session = requests.Session()
        self._session.trust_env = False  # no proxy, no netrc
        self._session.verify = str(pki.ca)
        self._session.headers["Authorization"] = f"Bearer {pki.token(ADMIN)}"

    def ready(self) -> bool:
        try:
            return self._session.get(f"{self.url}/readyz", timeout=5).ok
        except requests.RequestException:
            return False

    def get(self, path: str) -> Any:
        """The JSON under a path such as /api/v1/nodes, or None where there is nothing."""
        answer = self._session.get(f"{self.url}{path}", timeout=30)
        if answer.status_code == requests.codes.not_found:
            return None
        answer.raise_for_status()
        return answer.json()

    def request(self, method: str, path: str, body: Any = None) -> Any:
        """Send a JSON, and return the JSON of the answer; raises requests.HTTPError on any refusal."""
        answer = self._session.request(method, f"{self.url}{path}", json=body, timeout=30)
        if not answer.ok:
            raise requests.HTTPError(answer.text, response=answer)
        return answer.json()
