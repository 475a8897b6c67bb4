from __future__ import annotations

import base64
import json

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from cluster.scheduler import webhook
from cluster.scheduler.metrics import Metrics
from hami_hub.core.pods import PodRules

POD = {
    "metadata": {"generateName": "jupyter-"},
    "spec": {"containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpumem": "4k"}}}]},
}


def review(pod=POD, **changed) -> dict:
    request = {"uid": "review-1", "namespace": "jhub", "operation": "CREATE", "object": pod}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request, **changed}


@pytest.fixture
async def client():
    hook = webhook.Webhook(PodRules(), Metrics())
    application = web.Application(client_max_size=webhook.MAX_BODY)
    application.router.add_post("/webhook", hook.handle)
    async with TestClient(TestServer(application)) as client:
        yield client


async def answer(client, body) -> dict:
    response = await client.post("/webhook", data=body if isinstance(body, bytes) else json.dumps(body))
    assert response.status == 200, await response.text()
    return (await response.json())["response"]


async def test_a_pod_that_asks_for_a_slice_is_made_ours(client):
    said = await answer(client, review())
    assert (said["uid"], said["allowed"], said["patchType"]) == ("review-1", True, "JSONPatch")
    patch = {entry["path"]: entry["value"] for entry in json.loads(base64.b64decode(said["patch"]))}
    assert patch["/spec/schedulerName"] == "hami-scheduler"


async def test_a_pod_that_asks_for_nothing_is_left_alone(client):
    said = await answer(client, review({"metadata": {}, "spec": {"containers": [{"name": "main"}]}}))
    assert said == {"uid": "review-1", "allowed": True}


async def test_a_refusal_says_why(client):
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem-percentage": "101"}
    pod = {"metadata": {}, "spec": {"containers": [{"name": "main", "resources": {"limits": limits}}]}}
    said = await answer(client, review(pod))
    assert not said["allowed"]
    assert "101" in said["status"]["message"]
    assert "patch" not in said


BAD = {
    "empty": b"",
    "text": b"hello",
    "truncated": json.dumps(review()).encode()[:150],
    "not UTF-8": b'{"apiVersion": "\xff"}',
    "a list": b"[]",
    "no request": json.dumps(review(request=None)).encode(),
    "wrong version": json.dumps(review(apiVersion="admission.k8s.io/v1beta1")).encode(),
    "wrong kind": json.dumps(review(kind="Pod")).encode(),
    "uid is a number": json.dumps(review(request={"uid": 7})).encode(),
    "deep": b'{"apiVersion":' + b"[" * 100000,
}


@pytest.mark.parametrize("body", BAD.values(), ids=BAD.keys())
async def test_what_is_no_review_is_answered_in_words(client, body):
    response = await client.post("/webhook", data=body)
    assert response.status == 400
    assert (await response.text()).endswith(".")
    assert (await answer(client, review()))["allowed"]


async def test_ten_mebibytes_are_too_much(client):
    response = await client.post("/webhook", data=b" " * (10 * 1024 * 1024))
    assert response.status == 413
    assert (await answer(client, review()))["allowed"]


STRANGE = {
    "no pod at all": None,
    "empty": {},
    "spec is a list": {"spec": []},
    "containers is text": {"spec": {"containers": "many"}},
    "a container is null": {"spec": {"containers": [None]}},
    "limits is a list": {"spec": {"containers": [{"name": "x", "resources": {"limits": ["gpu"]}}]}},
    "annotations is text": {"metadata": {"annotations": "x"}, "spec": {"containers": []}},
}


@pytest.mark.parametrize("pod", STRANGE.values(), ids=STRANGE.keys())
async def test_a_pod_of_strange_form_is_answered_too(client, pod):
    assert (await answer(client, review(pod)))["uid"] == "review-1"
