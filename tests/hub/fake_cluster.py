"""As much of a Kubernetes API server as KubeSpawner needs, and of a GPU scheduler as a hub asks; driven by the test.

It runs in a thread of its own, so that it serves a spawner in the test's event loop as well as a hub in a process of
its own.  Pods have the life that `FakeCluster.life` gives them; real ones are in `tests/cluster`.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import yaml
from aiohttp import web

Json = dict[str, Any]
PATIENCE = 60.0
NAMESPACE = "default"
UUID = "GPU-11111111-2222-3333-4444-555555555555"

T4 = {
    "uuid": UUID,
    "index": 0,
    "model": "Tesla T4",
    "vram": 15360,
    "splitCount": 10,
    "healthy": True,
    "usedVram": 0,
    "usedCores": 0,
    "slices": 0,
    "exclusive": False,
}


def node(name: str = "node-a", **card: Any) -> Json:
    """A node with one card, as the scheduler's inventory shows it."""
    return {"name": name, "ready": True, "problem": None, "cards": [{**T4, **card}]}


def slices(vram: int = 4096, cores: int = 25) -> str:
    """The annotation of a pod that has its slice."""
    share = {"uuid": UUID, "vram": vram, "cores": cores, "exclusive": False, "whole": False}
    return json.dumps({"notebook": {"shares": [share], "priority": 1, "policy": "default", "oomKiller": True}})


def running(port: int, ip: str = "127.0.0.1") -> Json:
    """The status of a pod whose server can be asked for pages."""
    state = {"running": {"startedAt": "2026-11-29T10:00:00Z"}}
    container = {"name": "notebook", "ready": True, "started": True, "image": "img", "state": state}
    return {"phase": "Running", "podIP": ip, "containerStatuses": [container]}


def waiting(reason: str, message: str = "") -> Json:
    """The status of a pod whose container waits."""
    state = {"waiting": {"reason": reason, "message": message}}
    container = {"name": "notebook", "ready": False, "image": "img", "state": state}
    return {"phase": "Pending", "podIP": None, "containerStatuses": [container]}


def unschedulable(message: str) -> Json:
    """The status of a pod that has no place."""
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return {"phase": "Pending", "conditions": [condition]}


class FakeCluster:
    """`with FakeCluster(folder) as cluster: ...`.

    Attributes:
        life: called with the name of each pod that is made, in a thread; None: pods stay pending.
        end: called with the name of each pod that is deleted.
        refuse: status and message with which the next pods are refused; None: they are made.
        inventory: what the scheduler tells; None: it doesn't answer.
        queue: what it says of a pod, by name.
        away: whether the API server answers everything with 503.
        clings: whether pods stay, marked for deletion, when they are deleted, as with a finalizer.
    """

    def __init__(self, folder: Path) -> None:
        self.life: Callable[[str], None] | None = None
        self.end: Callable[[str], None] | None = None
        self.refuse: tuple[int, str] | None = None
        self.inventory: Json | None = {"at": "2026-11-29T10:00:00Z", "nodes": [node()], "slices": [], "queue": []}
        self.queue: dict[str, Json] = {}
        self.away = self.clings = False
        self.tokens: list[str] = []  # those that the scheduler was asked with
        self.made: list[Json] = []  # every pod that was ever asked for, as it was asked for
        self.deleted: list[str] = []
        self.objects: dict[str, dict[str, Json]] = {
            kind: {} for kind in ("pods", "events", "persistentvolumeclaims", "configmaps")
        }
        self.token_file = folder / "token"
        self.token_file.write_text("first-token\n")
        self.kubeconfig = folder / "kubeconfig"
        self._version = 10
        self._watchers: list[tuple[str, asyncio.Queue[Json | None]]] = []
        self._history: list[tuple[int, str, Json]] = []  # every change: its version, of which kind, what is told of it
        self._threads: list[threading.Thread] = []

    # --- the process's side

    def __enter__(self) -> FakeCluster:
        begun: threading.Event = threading.Event()
        self._thread = threading.Thread(target=self._serve, args=(begun,), daemon=True)
        self._thread.start()
        assert begun.wait(PATIENCE)
        self.url = f"http://127.0.0.1:{self.port}"
        context = {"cluster": "fake", "user": "hub", "namespace": NAMESPACE}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "fake",
            "contexts": [{"name": "fake", "context": context}],
            "clusters": [{"name": "fake", "cluster": {"server": self.url}}],
            "users": [{"name": "hub", "user": {"token": "t"}}],
        }
        self.kubeconfig.write_text(yaml.safe_dump(config))
        self.set_scheduler()
        return self

    def __exit__(self, *error: object) -> None:
        self._do(self._close())
        self.loop.call_soon_threadsafe(self._over.set)
        self._thread.join(PATIENCE)
        for thread in self._threads:
            thread.join(PATIENCE)

    def set_scheduler(self, **data: str) -> None:
        """Write the ConfigMap that says where the scheduler is."""
        content = {"url": self.url, "schedulerName": "hami-scheduler", **data}
        self.put("configmaps", "hami-hub", {"metadata": {"name": "hami-hub"}, "data": content})

    # --- what a test does to it

    def put(self, kind: str, name: str, content: Json) -> None:
        """Make or replace an object."""
        self._do(self._store(kind, name, content))

    def status(
        self, name: str, status: Json, *, node: str = "", annotations: Json | None = None, uid: str = ""
    ) -> None:
        """Change a pod: its status, and where it is; with a `uid` only if it is that very one, and no later one."""
        self._do(self._change(name, status, node, annotations or {}, uid))

    def place(self, name: str, node: str = "node-a", vram: int = 4096, cores: int = 25, uid: str = "") -> None:
        """Give a pod its node and its slice, as the scheduler's binding does."""
        annotations = {"hami.io/slices": slices(vram, cores)}
        self.status(name, {"phase": "Pending"}, node=node, annotations=annotations, uid=uid)

    def event(self, pod: str, reason: str, message: str, **more: Any) -> None:
        """Something happens to a pod."""
        self._do(self._add_event(pod, reason, message, more))

    def remove(self, name: str) -> None:
        """A pod is gone."""
        self._do(self._drop("pods", name))

    def pod(self, name: str) -> Json | None:
        """A pod as it is."""
        return self.objects["pods"].get(name)

    def wait_for(self, condition: Callable[[], Any]) -> Any:
        """What `condition` comes to once it is true."""
        end = time.monotonic() + PATIENCE
        while not (found := condition()):
            assert time.monotonic() < end, f"pods: {self.objects['pods']}"
            time.sleep(0.01)
        return found

    # --- the server

    def _serve(self, begun: threading.Event) -> None:
        asyncio.run(self._run(begun))

    async def _run(self, begun: threading.Event) -> None:
        self.loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        app = web.Application(middlewares=[self._gate])
        base = "/api/v1/namespaces/{namespace}/{kind}"
        app.add_routes(
            [
                web.get("/v1/inventory", self._inventory),
                web.get("/v1/pods/{namespace}/{name}", self._waiting),
                web.get(base, self._list),
                web.post(base, self._create),
                web.get(base + "/{name}", self._read),
                web.delete(base + "/{name}", self._delete),
            ]
        )
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
        begun.set()
        await self._over.wait()
        await runner.cleanup()

    @web.middleware
    async def _gate(self, request: web.Request, handler: Any) -> web.StreamResponse:
        if self.away and request.path.startswith("/api"):
            return _status(503, "the server is currently unable to handle the request")
        result: web.StreamResponse = await handler(request)
        return result

    async def _inventory(self, request: web.Request) -> web.StreamResponse:
        self.tokens.append(request.headers.get("Authorization", ""))
        if self.inventory is None:
            return web.Response(status=503)
        return web.json_response(self.inventory)

    async def _waiting(self, request: web.Request) -> web.StreamResponse:
        return web.json_response(self.queue.get(request.match_info["name"], {"state": "unknown"}))

    async def _list(self, request: web.Request) -> web.StreamResponse:
        kind = request.match_info["kind"]
        if request.query.get("watch"):
            return await self._watch(request, kind)
        found = [each for each in self.objects[kind].values() if _selected(each, request.query)]
        return web.json_response({"metadata": {"resourceVersion": str(self._version)}, "items": found})

    async def _watch(self, request: web.Request, kind: str) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": "application/json"})
        changes: asyncio.Queue[Json | None] = asyncio.Queue()
        since = int(request.query.get("resourceVersion") or 0)
        for version, of, change in self._history:  # what came between the list and the watch isn't lost
            if of == kind and version > since:
                changes.put_nowait(change)
        self._watchers.append((kind, changes))
        end = self.loop.time() + float(request.query.get("timeoutSeconds") or 60)
        try:
            await answer.prepare(request)
            while (change := await asyncio.wait_for(changes.get(), max(0, end - self.loop.time()))) is not None:
                if _selected(change["object"], request.query):
                    await answer.write(json.dumps(change).encode() + b"\n")
        except (asyncio.TimeoutError, ConnectionResetError):
            pass
        finally:
            self._watchers.remove((kind, changes))
        return answer

    async def _create(self, request: web.Request) -> web.StreamResponse:
        kind, content = request.match_info["kind"], await request.json()
        name = content["metadata"]["name"]
        if kind == "pods":
            self.made.append(content)
            if self.refuse is not None:
                return _status(*self.refuse)
        if name in self.objects[kind]:
            return _status(409, f'{kind} "{name}" already exists')
        await self._store(kind, name, {**content, "status": {"phase": "Pending"}})
        if kind == "pods" and self.life is not None:
            self._threads.append(threading.Thread(target=self.life, args=(name,), daemon=True))
            self._threads[-1].start()
        return web.json_response(self.objects[kind][name], status=201)

    async def _read(self, request: web.Request) -> web.StreamResponse:
        kind, name = request.match_info["kind"], request.match_info["name"]
        found = self.objects[kind].get(name)
        return web.json_response(found) if found else _status(404, f'{kind} "{name}" not found')

    async def _delete(self, request: web.Request) -> web.StreamResponse:
        kind, name = request.match_info["kind"], request.match_info["name"]
        if name not in self.objects[kind]:
            return _status(404, f'{kind} "{name}" not found')
        self.deleted.append(name)
        if self.clings:
            content = self.objects[kind][name]
            metadata = {**content["metadata"], "deletionTimestamp": "2026-11-29T10:00:00Z"}
            await self._store(kind, name, {**content, "metadata": metadata})
        else:
            await self._drop(kind, name)
        return web.json_response({"kind": "Status", "status": "Success"})

    # --- the store

    def _do(self, what: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(what, self.loop).result(PATIENCE)

    async def _store(self, kind: str, name: str, content: Json) -> None:
        self._version += 1
        metadata = content.setdefault("metadata", {})
        old = self.objects[kind].get(name)
        uid = old["metadata"]["uid"] if old else f"uid-{self._version}"
        metadata |= {
            "name": name,
            "namespace": NAMESPACE,
            "uid": metadata.get("uid") or uid,
            "resourceVersion": str(self._version),
            "creationTimestamp": metadata.get("creationTimestamp") or "2026-11-29T10:00:00Z",
        }
        self.objects[kind][name] = content
        self._tell(kind, "MODIFIED" if old else "ADDED", content)

    async def _change(self, name: str, status: Json, node: str, annotations: Json, uid: str) -> None:
        if name not in self.objects["pods"] or uid not in ("", self.objects["pods"][name]["metadata"]["uid"]):
            return  # it was deleted meanwhile
        pod: Json = json.loads(json.dumps(self.objects["pods"][name]))
        pod["status"] = status
        pod["metadata"]["annotations"] = {**pod["metadata"].get("annotations", {}), **annotations}
        if node:
            pod["spec"]["nodeName"] = node
        await self._store("pods", name, pod)

    async def _add_event(self, pod: str, reason: str, message: str, more: Json) -> None:
        name = f"{pod}.{self._version}"
        about = {"kind": "Pod", "name": pod, "uid": self.objects["pods"][pod]["metadata"]["uid"]}
        minutes, seconds = divmod(self._version, 60)
        stamp = f"2026-11-29T10:{minutes:02}:{seconds:02}Z"
        content: Json = {"involvedObject": about, "reason": reason, "message": message, "type": "Normal"}
        content["metadata"] = {"creationTimestamp": stamp}
        await self._store("events", name, {**content, "lastTimestamp": stamp, "eventTime": None, **more})

    async def _drop(self, kind: str, name: str) -> None:
        gone = self.objects[kind].pop(name, None)
        if gone is not None:
            if kind == "pods" and self.end is not None:
                self.end(name)
            self._version += 1
            self._tell(kind, "DELETED", gone)

    def _tell(self, kind: str, how: str, content: Json) -> None:
        change = {"type": how, "object": content}
        self._history.append((self._version, kind, change))
        for of, changes in self._watchers:
            if of == kind:
                changes.put_nowait(change)

    async def _close(self) -> None:
        for _, changes in self._watchers:
            changes.put_nowait(None)


def _status(code: int, message: str) -> web.Response:
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code}
    return web.json_response(body, status=code)


def _selected(content: Json, query: Any) -> bool:
    for wanted in filter(None, (query.get("labelSelector") or "").split(",")):
        key, _, value = wanted.partition("=")
        if (content["metadata"].get("labels") or {}).get(key) != value:
            return False
    return True


def limits_of(pod: Json) -> dict[str, str]:
    """What the server's container may take of the resources that are no CPU and no memory."""
    [container] = [each for each in pod["spec"]["containers"] if each["name"] == "notebook"]
    limits = (container.get("resources") or {}).get("limits") or {}
    return {name: str(value) for name, value in limits.items() if name not in ("cpu", "memory")}


def lines(text: str) -> Iterator[str]:
    """The lines of a log that say something went wrong."""
    return (line for line in text.splitlines() if line.startswith(("[E", "[C", "[W")) or "Traceback" in line)
