"""The pods of this node: kept up to date by a watch, and asked for one by one when a container starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import TypeAlias

import msgspec

from cluster.apiserver import ApiRefused, ApiServer, ApiUnreachable

from .owner import Pod, Refused

PODS = "/api/v1/pods"
# The kubelet waits 30 s for a container's start, and asks again after a failure.
_ANSWER_SECONDS = 5.0
_pod = msgspec.json.Decoder(Pod)

Name: TypeAlias = tuple[str, str]


class NodePods:
    """The watch's sink: the pods that the API server has on this node.

    Args:
        changed: called after each change.
    """

    def __init__(self, changed: Callable[[], None] = lambda: None) -> None:
        self._changed = changed
        self._pods: dict[str, Pod] = {}
        self._listed: dict[str, Pod] | None = None

    @property
    def by_uid(self) -> Mapping[str, Pod]:
        """All of them, finished ones too."""
        return self._pods

    def named(self, namespace: str, name: str) -> Pod | None:
        """The pod of that name as the watch last saw it."""
        for pod in self._pods.values():
            if (pod["metadata"]["namespace"], pod["metadata"]["name"]) == (namespace, name):
                return pod
        return None

    def begin_list(self) -> None:
        """See `watch.Sink`."""
        self._listed = {}

    def end_list(self) -> None:
        """See `watch.Sink`."""
        self._pods, self._listed = self._listed or {}, None
        self._changed()

    def put(self, obj: Pod) -> None:
        """See `watch.Sink`."""
        (self._pods if self._listed is None else self._listed)[obj["metadata"]["uid"]] = obj
        if self._listed is None:
            self._changed()

    def drop(self, obj: Pod) -> None:
        """See `watch.Sink`."""
        self._pods.pop(obj["metadata"]["uid"], None)
        self._changed()


async def read_pod(api: ApiServer, namespace: str, name: str) -> Pod:
    """The pod of that name as it is now: a pod may be gone and another have its name before a watch tells of it.

    Raises:
        Refused: there is none.
        ApiUnreachable: the API server doesn't answer.
    """
    try:
        body = await api.request("GET", f"/api/v1/namespaces/{namespace}/pods/{name}", timeout=_ANSWER_SECONDS)
    except ApiRefused as error:
        if error.status == HTTPStatus.NOT_FOUND:
            raise Refused("no-pod", f"The pod {namespace}/{name} is gone.", retry=True) from None
        if error.status >= HTTPStatus.INTERNAL_SERVER_ERROR or error.status == HTTPStatus.TOO_MANY_REQUESTS:
            raise ApiUnreachable(error.message) from None
        raise Refused(
            "forbidden", f"The API server doesn't say what was decided for this pod: {error.message}", retry=True
        ) from None
    return _pod.decode(body)
