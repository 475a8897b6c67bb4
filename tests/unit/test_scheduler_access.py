from __future__ import annotations

import pytest

from cluster.scheduler.access import Access, AccessDenied
from tests.unit.api_server_double import ApiDouble, refuse, serving

TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


class Cluster(ApiDouble):
    """Knows two ServiceAccounts; only the hub's may read."""

    def __init__(self) -> None:
        super().__init__()
        self.on("POST", TOKENS, self.token)
        self.on("POST", ACCESS, self.access)

    def token(self, _request, body):
        name = {"hub-token": "hub", "other-token": "other"}.get(body["spec"]["token"])
        user = {"username": f"system:serviceaccount:jhub:{name}", "groups": ["system:serviceaccounts"]}
        return {"status": {"authenticated": True, "user": user} if name else {"authenticated": False}}

    def access(self, _request, body):
        asked = body["spec"]
        assert asked["nonResourceAttributes"] == {"path": "/hami/inventory", "verb": "get"}
        assert asked["groups"] == ["system:serviceaccounts"]
        return {"status": {"allowed": asked["user"].endswith(":hub")}}


async def verdict(access: Access, header: str | None) -> int:
    try:
        await access.check(header)
    except AccessDenied as denied:
        return denied.status if denied.text.strip() else 0
    return 200


@pytest.mark.parametrize(
    ("header", "status"),
    [
        ("Bearer hub-token", 200),
        ("bearer  hub-token ", 200),
        ("Bearer other-token", 403),
        ("Bearer nobody", 401),
        ("Bearer ", 401),
        ("Basic aHViOmh1Yg==", 401),
        ("", 401),
        (None, 401),
    ],
)
async def test_only_who_may_get_the_path_passes(tmp_path, header, status):
    async with serving(Cluster(), tmp_path) as api:
        assert await verdict(Access(api), header) == status


async def test_the_answer_holds_for_a_minute_then_it_is_asked_again(tmp_path):
    now, cluster = [1000.0], Cluster()
    async with serving(cluster, tmp_path) as api:
        access = Access(api, clock=lambda: now[0])
        for _ in range(3):
            await access.check("Bearer hub-token")
        assert len(cluster.asked) == 2
        now[0] += 61
        cluster.on("POST", ACCESS, {"status": {"allowed": False}})
        assert await verdict(access, "Bearer hub-token") == 403


async def test_where_nobody_can_be_asked_nobody_passes_and_it_is_tried_again(tmp_path):
    cluster = Cluster()
    cluster.on("POST", TOKENS, lambda *_: refuse(500, "etcd is away"))
    async with serving(cluster, tmp_path) as api:
        access = Access(api)
        assert await verdict(access, "Bearer hub-token") == 503
        cluster.on("POST", TOKENS, cluster.token)
        assert await verdict(access, "Bearer hub-token") == 200
