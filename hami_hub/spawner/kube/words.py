"""Every sentence that a person reads about a pod, by key; and which words of Kubernetes mean which key.

Pure data: a sentence's key says what is meant, `{…}` are filled in.  What is meant when is decided in `stage` and
`refusal`.  Sentences about room on the cards are made in `hami_hub.core.messages`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from ...core.language import later, say
from ..errors import Reason

SENTENCES = {
    # on the way
    "looking-for-place": later("The cluster looks for a place for your server."),
    "waits": later("{why} Your server starts by itself as soon as it can."),
    "waits-unknown": later("The cluster has no place for your server yet: {text}"),
    "gated": later("Your server is held back by the cluster's admins and starts when they let it."),
    "placed": later("You have {slice}. Your server is being prepared."),
    "placed-plain": later("Your server has its place on {node} and is being prepared."),
    "init": later("Your server's home and tools are being made ready."),
    "pulling": later("The image {image} is being fetched. The first time on a node this can take minutes."),
    "pulled": later("The image is there. Your server is being made."),
    "creating": later("Your server is being made."),
    "volume": later("Your server waits for its storage: {text}"),
    "network": later("Your server waits for its network: {text}"),
    "slice-not-ready": later("Your slice isn't ready yet: {text}"),
    "scale-up": later("The cluster is adding a machine for your server. That takes some minutes."),
    "running": later("Your server is starting."),
    "has-slice": later("You have {slice}. Your server is starting."),
    # why a pod has no place
    "cpu": later("No machine of the cluster has enough free CPU for your server."),
    "memory": later("No machine of the cluster has enough free memory for your server."),
    "disk": later("No machine of the cluster has enough free disk space for your server."),
    "gpu": later("No machine of the cluster has a free slot on a GPU."),
    "resource": later("No machine of the cluster has enough free {resource} for your server."),
    "pods": later("Every machine of the cluster has as many servers as it may have."),
    "storage": later("Your server's storage isn't ready, so it has no place yet."),
    "taint": later("The machines with room are kept for others (taint {taint}). Ask an admin if that stays so."),
    "selector": later(
        "No machine of the cluster is of the kind that this profile is for. Ask an admin if that stays so."
    ),
    "unready": later("The cluster's machines are not ready."),
    # the end of a start
    "no-place": later("Your server found no place in the cluster within {seconds} seconds. {why}"),
    "image-gone": later(
        "The image {image} can't be fetched: {text} Pick another one, or ask an admin to put it right."
    ),
    "image-name": later("{image} is not the name of an image. Pick another one, or ask an admin to put it right."),
    "not-made": later("Your server could not be made: {text} Start it again; if that doesn't help, ask an admin."),
    "slice-refused": later("Your server did not get its slice: {text}"),
    "admission": later("The node {node} could not take your server after all: {text} Start it again."),
    "out-of": later("The node {node} ran out of {resource} just before your server came. Start it again."),
    "evicted": later("The cluster took your server away from {node}: {text} Start it again."),
    "preempted": later("Your server made room for one of higher priority. Start it again to wait for its next turn."),
    "node-lost": later("The node {node} was shut down or lost while your server started. Start it again."),
    "ended": later(
        "Your server ended while it was starting ({status}). Start it again; if that doesn't help, ask an admin "
        "to look into the hub's log."
    ),
    "oom": later(
        "Your server ran out of main memory while it was starting. Pick a profile with more, or ask an admin."
    ),
    "failed": later("Your server failed on {node}: {text} Start it again; if that doesn't help, ask an admin."),
    "deleted": later(
        "Your server was removed from the cluster while it started. Start it again; if you didn't do that, ask "
        "an admin."
    ),
    "never-seen": later("The cluster took your server but shows nothing of it. Start it again."),
    # the API server's answers
    "quota": later(
        "The cluster's own quota for servers here is used up: {text}. Wait until a server stops, or pick a "
        "smaller profile."
    ),
    "denied": later("The cluster refused your server. {text}"),
    "invalid": later("The hub made a server that the cluster doesn't accept, so an admin has to put it right: {text}"),
    "forbidden": later("The hub may not start servers in the cluster, so an admin has to put it right: {text}"),
    "namespace": later("The namespace {namespace} for servers isn't there. Ask an admin to make it."),
    "scheduler-away": later(
        "The cluster's GPU scheduler doesn't answer, so no server with a GPU can start. Try again in a "
        "minute; if that doesn't help, ask an admin."
    ),
    "cluster-away": later(
        "The cluster doesn't answer, so no server can start. Try again in a minute; if that doesn't help, ask an admin."
    ),
}

# How far a start has come, for the progress bar.
PROGRESS = {
    "looking-for-place": 5,
    "waits": 10,
    "waits-unknown": 10,
    "gated": 10,
    "scale-up": 15,
    "placed": 50,
    "placed-plain": 50,
    "volume": 55,
    "network": 55,
    "slice-not-ready": 55,
    "init": 60,
    "pulling": 65,
    "pulled": 75,
    "creating": 80,
    "running": 90,
}


@dataclass(frozen=True, slots=True)
class Rule:
    """If `pattern` is found in what Kubernetes says, `key` is meant; its groups fill the sentence."""

    pattern: re.Pattern[str]
    key: str


def _rules(**patterns: str) -> tuple[Rule, ...]:
    return tuple(Rule(re.compile(pattern, re.IGNORECASE), key.replace("_", "-")) for key, pattern in patterns.items())


# What kube-scheduler says of a pod that it can't place, the most telling first.
NO_PLACE = _rules(
    storage=r"persistentvolumeclaim|unbound immediate|volume node affinity|volume binding|bind.*volume",
    gpu=r"Insufficient nvidia\.com/gpu\b",
    memory=r"Insufficient memory",
    cpu=r"Insufficient cpu",
    disk=r"Insufficient ephemeral-storage|disk pressure",
    pods=r"Too many pods|Insufficient pods",
    resource=r"Insufficient (?P<resource>[\w./-]*\w)",
    taint=r"untolerated taint\(?s?\)? ?\{(?P<taint>[^}:]+)",
    selector=r"didn't match Pod's node affinity/selector|didn't match node selector",
    unready=r"node\(s\) were not ready|node\(s\) were unschedulable|no nodes available",
)

# What kube-scheduler puts around the reasons.
AROUND_REASONS = re.compile(
    r"^\d+/\d+ nodes are available: (?:\d+ )?|\s+preemption: .*$|\s*no new claims to deallocate.*$"
)

# What a registry says when asking again is of no use.
IMAGE_IS_GONE = re.compile(
    r"not found|manifest unknown|does not exist|unauthorized|authentication required|denied|no basic auth|"
    r"insufficient_scope|invalid reference|no match for platform",
    re.IGNORECASE,
)

# gRPC's name for a refusal that another try may undo, as the kubelet prints it.
TRY_AGAIN = re.compile(r"code = (Unavailable|DeadlineExceeded|Canceled|Aborted)\b")
DEVICE_PLUGIN = re.compile(r"PreStartContainer|device plugin", re.IGNORECASE)
# What comes of a busy node, and goes again.
PASSES = re.compile(r"deadline exceeded|context canceled|name .* is reserved|try again", re.IGNORECASE)


class Means(str, Enum):
    """What a reason of a waiting container comes to."""

    ON_THE_WAY = "on the way"
    PULL = "pull"  # ends the start if the registry says no, or after some tries
    BAD_NAME = "bad name"
    NOT_MADE = "not made"
    CRASHED = "crashed"


CONTAINER_WAITS = {
    "ContainerCreating": Means.ON_THE_WAY,
    "PodInitializing": Means.ON_THE_WAY,
    "ErrImagePull": Means.PULL,
    "ImagePullBackOff": Means.PULL,
    "RegistryUnavailable": Means.PULL,
    "ImageInspectError": Means.PULL,
    "InvalidImageName": Means.BAD_NAME,
    "ErrImageNeverPull": Means.PULL,
    "CreateContainerConfigError": Means.NOT_MADE,
    "CreateContainerError": Means.NOT_MADE,
    "PreCreateHookError": Means.NOT_MADE,
    "PreStartHookError": Means.NOT_MADE,
    "RunContainerError": Means.NOT_MADE,
    "PostStartHookError": Means.NOT_MADE,
    "CrashLoopBackOff": Means.CRASHED,
}

# Reasons in a failed pod's status.  `OutOf…` and an ending container are told apart in `stage`.
POD_FAILS = {
    "UnexpectedAdmissionError": "admission",
    "NodeAffinity": "admission",
    "NodeName": "admission",
    "Evicted": "evicted",
    "Preempting": "preempted",
    "NodeLost": "node-lost",
    "NodeShutdown": "node-lost",
    "Terminated": "node-lost",
    "Shutdown": "node-lost",
    "DeadlineExceeded": "evicted",
}

# Reasons of the condition DisruptionTarget, on a pod that is being deleted.
DISRUPTIONS = {
    "PreemptionByScheduler": "preempted",
    "PreemptionByKubeScheduler": "preempted",
    "DeletionByTaintManager": "node-lost",
    "DeletionByPodGC": "node-lost",
    "TerminationByKubelet": "node-lost",
    "EvictionByEvictionAPI": "evicted",
}

# Events that say something which the pod's status doesn't, by their reason.
EVENTS = {
    "FailedMount": "volume",
    "FailedAttachVolume": "volume",
    "FailedMapVolume": "volume",
    "FailedCreatePodSandBox": "network",
    "Pulling": "pulling",
    "Pulled": "pulled",
    "TriggeredScaleUp": "scale-up",
}

# What the hub's metrics count a key as.
REASONS = {
    "no-place": Reason.NO_ROOM,
    "image-gone": Reason.IMAGE,
    "image-name": Reason.IMAGE,
    "quota": Reason.CLUSTER_QUOTA,
    "denied": Reason.REFUSED,
    "invalid": Reason.SETUP,
    "forbidden": Reason.SETUP,
    "namespace": Reason.SETUP,
    "scheduler-away": Reason.CLUSTER,
    "cluster-away": Reason.CLUSTER,
    "never-seen": Reason.CLUSTER,
}


def sentence(key: str, **values: str) -> str:
    """The sentence of that key."""
    return say(SENTENCES[key], **values)


def reason_of(key: str) -> Reason:
    """What the metrics count it as; whatever happens to a pod on its node is one thing."""
    return REASONS.get(key, Reason.POD_FAILED)
