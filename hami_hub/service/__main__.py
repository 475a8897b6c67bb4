"""`python -m hami_hub.service`: started by the hub, with its settings in the environment."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from jupyterhub.services.auth import HubOAuth, HubOAuthCallbackHandler
from jupyterhub.utils import make_ssl_context
from tornado.httpclient import AsyncHTTPClient, HTTPClientError
from tornado.httpserver import HTTPServer
from tornado.web import Application

from ..journal import Reader
from ..spawner.config import GpuSlices
from . import api, pages
from .base import REMEMBERED_SECONDS, Parts, templates_in
from .hubapi import Hub
from .live import Live
from .machine import MachineEyes
from .quotas import Quotas
from .records import Records
from .settings import GpuPage, received
from .sight import Eyes

_HERE = Path(__file__).parent
_LARGEST_BODY = 256 * 1024
_ORPHAN_SECONDS = 3.0
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")

_log = logging.getLogger(__name__)


def parts() -> Parts:
    """What the handlers work with, from the environment."""
    config = received()
    slices, page = GpuSlices(config=config), GpuPage(config=config)
    auth = HubOAuth.instance()
    records = Records(Reader(slices.journal_url))
    hub = Hub(auth.api_url, auth.api_token)
    eyes = cluster_eyes(page) if page.in_cluster else MachineEyes(Path(slices.slice_root), slices.split_count)
    live = Live(eyes, records, hub, default_quota=slices.default_quota)
    return Parts(
        live=live,
        records=records,
        quotas=Quotas(hub, records, live),
        hub=hub,
        default_quota=slices.default_quota,
        language=slices.language,
        templates=templates_in(str(_HERE / "templates")),
    )


def cluster_eyes(page: GpuPage) -> Eyes:
    """Those for a cluster, which need more than JupyterHub."""
    from kubernetes_asyncio.config import ConfigException
    from kubespawner.clients import load_config

    from ..spawner.kube.cluster import GpuCluster
    from .cluster import ClusterEyes, PluginMetrics

    own = page.config.KubeSpawner
    try:
        # In the hub its spawners do that.
        load_config(own.get("k8s_api_host"), own.get("k8s_api_ssl_ca_cert"), own.get("k8s_api_verify_ssl"))
    except (ConfigException, OSError) as error:
        _log.warning("How to ask the cluster isn't known (%s); c.GpuCluster.url may say where the scheduler is.", error)
    cluster = GpuCluster.instance(config=page.config)
    usage = PluginMetrics(page.usage_url) if page.usage_url else None
    return ClusterEyes(cluster, _namespace(), usage)


def application(parts: Parts, prefix: str, cookie_secret: bytes) -> Application:
    """The service below `prefix`, which ends with a slash."""
    known = {"parts": parts}
    handlers: list[tuple[str, Any, dict[str, Any]]] = [
        (r"", pages.HomeHandler, known),
        (r"mine", pages.MineHandler, known),
        (r"oauth_callback", HubOAuthCallbackHandler, {}),
        (r"static/(.*)", pages.FilesHandler, {"path": str(_HERE / "static")}),
        (r"api/now", api.NowHandler, known),
        (r"api/me", pages.MeHandler, known),
        (r"api/quotas", api.QuotasHandler, known),
        (r"api/quotas/([^/]*)", api.QuotaHandler, known),
        (r"api/dry-run", api.DryRunHandler, known),
        (r"api/usage", api.UsageHandler, known),
        (r"api/usage\.csv", api.UsageCsvHandler, known),
        (r"api/starts", api.StartsHandler, known),
        (r"api/refusals", api.RefusalsHandler, known),
        (r"api/.*", api.LostHandler, known),
        (r".*", pages.LostPageHandler, known),
    ]
    return Application(
        [(f"{prefix}{path}", handler, given) for path, handler, given in handlers],
        cookie_secret=cookie_secret,
        compress_response=True,
        log_function=_log_request,
    )


async def serve() -> None:
    """Until the hub ends it, or another hub has come."""
    where = urlsplit(os.environ["JUPYTERHUB_SERVICE_URL"])
    served = application(parts(), HubOAuth.instance().base_url, os.urandom(32))
    server = HTTPServer(served, max_body_size=_LARGEST_BODY, xheaders=True, ssl_options=_certificates())
    # Behind a name of Kubernetes' the proxy comes from another pod.
    server.listen(where.port or 80, where.hostname if where.hostname in _LOOPBACK else "")
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    orphan = asyncio.ensure_future(_orphaned(ended))
    _log.info("The page about GPU slices is at %s", where.geturl())
    await ended.wait()
    orphan.cancel()
    server.stop()


async def _orphaned(ended: asyncio.Event) -> None:
    """A hub that was killed leaves its service, which shows what it can.  The next hub starts one of its own; if none
    comes, the service ends when it knows nobody any more.
    """
    parent = os.getppid()
    while os.getppid() == parent:  # noqa: ASYNC110  there is nothing to be woken by
        await asyncio.sleep(_ORPHAN_SECONDS)
    _log.warning("The hub is gone. The page goes on until the hub is back, or for an hour.")
    last = time.monotonic() + REMEMBERED_SECONDS
    while time.monotonic() < last:
        with contextlib.suppress(HTTPClientError, OSError):
            await AsyncHTTPClient().fetch(HubOAuth.instance().api_url)
            break
        await asyncio.sleep(_ORPHAN_SECONDS)
    ended.set()


def _log_request(handler: object) -> None:
    """Hundreds of browsers that ask every two seconds are nothing to write down."""
    status = handler.get_status()  # type: ignore[attr-defined]
    if status >= 500:
        request = handler.request  # type: ignore[attr-defined]
        _log.warning("%s %s: %s", request.method, request.path, status)


def _certificates() -> object:
    """For a hub with `internal_ssl`."""
    names = ("JUPYTERHUB_SSL_KEYFILE", "JUPYTERHUB_SSL_CERTFILE", "JUPYTERHUB_SSL_CLIENT_CA")
    key, cert, ca = (os.environ.get(name, "") for name in names)
    return make_ssl_context(key, cert, cafile=ca) if key and cert and ca else None


def _namespace() -> str:
    try:
        return _NAMESPACE_FILE.read_text().strip()
    except OSError:
        return os.environ.get("POD_NAMESPACE", "default")


def main() -> None:
    """Run."""
    logging.basicConfig(level=logging.INFO, format="[%(levelname)1.1s %(asctime)s hami] %(message)s")
    asyncio.run(serve())


if __name__ == "__main__":
    main()
