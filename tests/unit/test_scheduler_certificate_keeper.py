from __future__ import annotations

import asyncio
import base64
import json
from datetime import datetime, timedelta, timezone

import pytest
from aiohttp import web

from cluster.scheduler.certificate_keeper import CertificateFailure, FileKeeper, SecretKeeper
from cluster.scheduler.certificates import make
from cluster.scheduler.publication import HubFacts, Publication
from cluster.scheduler.serving import ServingTls
from tests.unit.api_server_double import ApiDouble, refuse, serving

SECRETS = "/api/v1/namespaces/hami-hub/secrets"
SECRET = f"{SECRETS}/hami-hub-certs"
WEBHOOK = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/hami-hub"
CONFIG_MAP = "/api/v1/namespaces/jhub/configmaps/hami-hub"
HOSTS = ("hami-scheduler.hami-hub.svc",)
FACTS = HubFacts(url="https://hami-scheduler.hami-hub.svc:443", scheduler_name="hami-scheduler", resources="{}")


class Cluster(ApiDouble):
    """An API server that has one Secret, with versions, and refuses writes to an old one."""

    def __init__(self, data: dict[str, str] | None = None) -> None:
        super().__init__()
        self.secret: dict | None = None if data is None else self.made(data, 1)
        self.writes = 0
        self.on("GET", SECRET, lambda *_: self.secret or refuse(404, "not found"))
        self.on("POST", SECRETS, self.create)
        self.on("PUT", SECRET, self.put)

    def made(self, data: dict[str, str], version: int) -> dict:
        return {
            "metadata": {"name": "hami-hub-certs", "resourceVersion": str(version), "labels": {"by": "helm"}},
            "data": data,
        }

    def create(self, _request, body):
        if self.secret is not None:
            return refuse(409, "already exists")
        return self.take(body, 1)

    def put(self, _request, body):
        if self.secret is None or body["metadata"].get("resourceVersion") != self.secret["metadata"]["resourceVersion"]:
            return refuse(409, "the object has been modified")
        return self.take(body, int(self.secret["metadata"]["resourceVersion"]) + 1)

    def take(self, body: dict, version: int) -> dict:
        self.writes += 1
        self.secret = {**body, "metadata": {**body["metadata"], "resourceVersion": str(version)}}
        return self.secret


class Replica:
    """A keeper with its own TLS, and the CA bundles that it told of."""

    def __init__(self, api, now: list[datetime]) -> None:
        self.tls, self.told = ServingTls(), []
        self.keeper = SecretKeeper(
            api,
            namespace="hami-hub",
            name="hami-hub-certs",
            hosts=HOSTS,
            tls=self.tls,
            publish=self.publish,
            clock=lambda: now[0],
        )

    async def publish(self, ca: bytes) -> bool:
        self.told.append((ca, self.tls.loaded.is_set()))
        return True


@pytest.fixture
def now() -> list[datetime]:
    return [datetime.now(timezone.utc)]


@pytest.mark.parametrize(
    "data",
    [None, {}, {"tls.crt": "%%%"}, {"ca.crt": base64.b64encode(b"text").decode()}],
    ids=["no Secret", "an empty one", "one that can't be decoded", "one without certificates"],
)
async def test_what_is_not_there_is_made(tmp_path, now, data):
    cluster = Cluster(data)
    async with serving(cluster, tmp_path) as api:
        replica = Replica(api, now)
        assert await replica.keeper.step()
    assert replica.tls.loaded.is_set()
    assert set(cluster.secret["data"]) == {"ca.crt", "ca.key", "tls.crt", "tls.key"}
    if data is not None:
        assert cluster.secret["metadata"]["labels"] == {"by": "helm"}


async def test_the_ca_is_told_before_the_certificate_is_served(tmp_path, now):
    async with serving(Cluster(), tmp_path) as api:
        replica = Replica(api, now)
        await replica.keeper.step()
    ((_, served),) = replica.told
    assert not served


async def test_two_replicas_that_start_at_once_serve_the_same(tmp_path, now):
    cluster = Cluster({})
    async with serving(cluster, tmp_path) as api:
        replicas = [Replica(api, now) for _ in range(4)]
        await asyncio.gather(*(replica.keeper.step() for replica in replicas))
        await asyncio.gather(*(replica.keeper.step() for replica in replicas))
    assert cluster.writes == 1
    assert len({replica.told[-1][0] for replica in replicas}) == 1


async def test_both_replicas_go_over_to_a_renewed_certificate(tmp_path, now):
    cluster = Cluster()
    async with serving(cluster, tmp_path) as api:
        first, second = (Replica(api, now) for _ in range(2))
        for replica in (first, second):
            await replica.keeper.step()
        before = cluster.secret["data"]["tls.crt"]
        now[0] += timedelta(days=70)
        for replica in (first, second):
            await replica.keeper.step()
    assert cluster.writes == 2
    assert cluster.secret["data"]["tls.crt"] != before
    assert second.keeper._served.certificate == base64.b64decode(cluster.secret["data"]["tls.crt"])


async def test_when_others_change_it_all_the_time_it_says_so(tmp_path, now):
    cluster = Cluster({})
    cluster.on("PUT", SECRET, lambda *_: refuse(409, "the object has been modified"))
    async with serving(cluster, tmp_path) as api:
        with pytest.raises(CertificateFailure, match="hami-hub/hami-hub-certs"):
            await Replica(api, now).keeper.step()


async def test_files_are_served_and_followed(tmp_path, now):
    tls, told = ServingTls(), []

    async def publish(ca: bytes) -> bool:
        told.append(ca)
        return True

    def write() -> bytes:
        made = make(HOSTS, now[0])
        for name, content in (("ca.crt", made.ca), ("tls.crt", made.certificate), ("tls.key", made.key)):
            (tmp_path / name).write_bytes(content)
        return made.ca

    keeper = FileKeeper(tmp_path, tls=tls, publish=publish)
    with pytest.raises(CertificateFailure, match=r"tls\.crt"):
        await keeper.step()
    written = [write()]
    await keeper.step()
    assert tls.loaded.is_set()
    written.append(write())
    await keeper.step()
    assert told == written
    (tmp_path / "tls.key").write_bytes(make(HOSTS, now[0]).key)
    with pytest.raises(CertificateFailure):
        await keeper.step()


def webhooks(*bundles: str) -> dict:
    return {"webhooks": [{"name": f"w{n}", "clientConfig": {"caBundle": bundle}} for n, bundle in enumerate(bundles)]}


async def test_only_what_is_stale_is_written_and_namespaces_once(tmp_path):
    cluster, good = ApiDouble(), base64.b64encode(b"CA").decode()
    cluster.on("GET", WEBHOOK, webhooks(good, "", "old"))
    cluster.on("PATCH", WEBHOOK, {})
    cluster.on("PATCH", CONFIG_MAP, {})
    async with serving(cluster, tmp_path) as api:
        publication = Publication(api, webhook="hami-hub", config_map="hami-hub", namespaces=["jhub"], facts=FACTS)
        for _ in range(2):
            assert await publication.tell(b"CA")
    patched = cluster.bodies("PATCH", WEBHOOK)[0]["webhooks"]
    assert [(entry["name"], entry["clientConfig"]["caBundle"]) for entry in patched] == [("w1", good), ("w2", good)]
    (config_map,) = cluster.bodies("PATCH", CONFIG_MAP)
    assert config_map["data"] == {
        "url": FACTS.url,
        "ca.crt": "CA",
        "schedulerName": "hami-scheduler",
        "resources": "{}",
    }


async def test_a_namespace_that_is_not_there_is_tried_again(tmp_path):
    cluster = ApiDouble()
    async with serving(cluster, tmp_path) as api:
        publication = Publication(api, webhook=None, config_map="hami-hub", namespaces=["jhub"], facts=FACTS)
        assert not await publication.tell(b"CA")
        cluster.on("PATCH", CONFIG_MAP, lambda *_: web.json_response({}))
        assert await publication.tell(b"CA")
    assert json.dumps(cluster.bodies("PATCH", CONFIG_MAP)[-1])
