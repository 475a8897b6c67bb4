"""What the API server's refusals come to in words."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("kubespawner", reason="jupyterhub-kubespawner is not installed")

from hami_hub.spawner.errors import Reason
from hami_hub.spawner.kube.refusal import answer, refusal

REFUSALS: dict[str, tuple[int, str, Reason, str]] = {
    "quota": (
        403,
        'pods "jupyter-alice" is forbidden: exceeded quota: gpus, requested: requests.nvidia.com/gpumem=4k, used: '
        "requests.nvidia.com/gpumem=12k, limited: requests.nvidia.com/gpumem=14k",
        Reason.CLUSTER_QUOTA,
        "The cluster's own quota for servers here is used up: gpus, requested: requests.nvidia.com/gpumem=4k, used: "
        "requests.nvidia.com/gpumem=12k, limited: requests.nvidia.com/gpumem=14k. Wait until a server stops, or pick a "
        "smaller profile.",
    ),
    "our webhook": (
        403,
        'admission webhook "pods.hami.io" denied the request: nvidia.com/gpumem-percentage is 101. Ask for 1 to 100.',
        Reason.REFUSED,
        "The cluster refused your server. nvidia.com/gpumem-percentage is 101. Ask for 1 to 100.",
    ),
    "a webhook without a word": (
        400,
        'admission webhook "x" denied the request without explanation',
        Reason.REFUSED,
        "The cluster refused your server. without explanation.",
    ),
    "our webhook is away": (
        500,
        'Internal error occurred: failed calling webhook "pods.hami.io": failed to call webhook: Post '
        '"https://hami-scheduler.hami-hub.svc:443/webhook?timeout=10s": dial tcp 10.0.0.7:443: connect: refused',
        Reason.CLUSTER,
        "The cluster's GPU scheduler doesn't answer, so no server with a GPU can start. Try again in a minute; if that "
        "doesn't help, ask an admin.",
    ),
    "a policy": (
        422,
        "pods \"jupyter-alice\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: Use our "
        "registry.",
        Reason.REFUSED,
        "The cluster refused your server. Use our registry.",
    ),
    "pod security": (
        403,
        'pods "jupyter-alice" is forbidden: violates PodSecurity "restricted:latest": privileged (container '
        '"block-cloud-metadata" must not set securityContext.privileged=true)',
        Reason.REFUSED,
        'The cluster refused your server. violates PodSecurity "restricted:latest": privileged (container '
        '"block-cloud-metadata" must not set securityContext.privileged=true).',
    ),
    "limit range": (
        403,
        'pods "jupyter-alice" is forbidden: maximum memory usage per Container is 2Gi, but limit is 4Gi',
        Reason.REFUSED,
        "The cluster refused your server. maximum memory usage per Container is 2Gi, but limit is 4Gi.",
    ),
    "not allowed": (
        403,
        'pods is forbidden: User "system:serviceaccount:jhub:hub" cannot create resource "pods" in API group "" in the '
        'namespace "jhub"',
        Reason.SETUP,
        "The hub may not start servers in the cluster, so an admin has to put it right: pods is forbidden: User "
        '"system:serviceaccount:jhub:hub" cannot create resource "pods" in API group "" in the namespace "jhub".',
    ),
    "no namespace": (
        404,
        'namespaces "jhub" not found',
        Reason.SETUP,
        "The namespace jhub for servers isn't there. Ask an admin to make it.",
    ),
    "invalid": (
        422,
        'Pod "jupyter-alice" is invalid: spec.containers[0].image: Required value',
        Reason.SETUP,
        'The hub made a server that the cluster doesn\'t accept, so an admin has to put it right: Pod "jupyter-alice" '
        "is invalid: spec.containers[0].image: Required value.",
    ),
    "away": (
        503,
        "the server is currently unable to handle the request",
        Reason.CLUSTER,
        "The cluster doesn't answer, so no server can start. Try again in a minute; if that doesn't help, "
        "ask an admin.",
    ),
}


@pytest.mark.parametrize(("status", "message", "reason", "text"), REFUSALS.values(), ids=REFUSALS)
def test_a_refusal_is_explained(status: int, message: str, reason: Reason, text: str) -> None:
    error = refusal(answer(status, json.dumps({"kind": "Status", "message": message})))
    assert error.jupyterhub_message == text
    assert error.reason == reason.value


@pytest.mark.parametrize(
    "body", [None, "", b"<html>Bad gateway</html>", "[]", '"text"', '{"message": null}', b"\xff\xfe"]
)
@pytest.mark.parametrize("status", [None, 400, 403, 422, 502])
def test_no_answer_is_too_odd(status: int | None, body: str | bytes | None) -> None:
    error = refusal(answer(status, body, "Forbidden"))
    assert error.jupyterhub_message
    assert len(error.jupyterhub_message) < 1000
