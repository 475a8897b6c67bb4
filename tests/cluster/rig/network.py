"""Addresses of a cluster, and the network of its machines.

Every cluster has a network of its own, from which nothing gets out and into which only `relay` leads: so all have the
same addresses.  Control plane, nodes and pods share one bridge; pods of all nodes reach each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MACHINE_PREFIX = "192.0.2."
CONTROL = MACHINE_PREFIX + "1"  # also the first node's address
SERVICES = "10.96.0.0/16"
API_SERVICE = "10.96.0.1"
API_PORT = 6443
DNS = CONTROL
DOMAIN = "cluster.local"
BRIDGE = "node0"
MAX_NODES = 8
_PODS_FROM, _PODS_TO = 20, 250

# Arguments: a file with RESOLV in it, the addresses of all nodes.
SETUP = f"""\
resolv=$1; shift
ip link set lo up
ip link add {BRIDGE} type bridge
ip link set {BRIDGE} up
for address in "$@"; do ip addr add "$address/24" dev {BRIDGE}; done
ip route add default dev {BRIDGE}
echo 1 > /proc/sys/net/ipv4/ip_forward
bridged=/proc/sys/net/bridge/bridge-nf-call-iptables
[ ! -e $bridged ] || echo 1 > $bridged
[ ! -e /etc/resolv.conf ] || mount --bind "$resolv" "$(readlink -f /etc/resolv.conf)"
"""
RESOLV = f"nameserver {DNS}\nsearch default.svc.{DOMAIN} svc.{DOMAIN} {DOMAIN}\noptions ndots:5\n"


def node_address(index: int) -> str:
    """The address of a node, counted from 0."""
    return f"{MACHINE_PREFIX}{index + 1}"


def cni(index: int, nodes: int) -> Mapping[str, Any]:
    """The CNI configuration of one of so many nodes: pods on the bridge, and addresses that only this node gives."""
    each = (_PODS_TO - _PODS_FROM) // nodes
    first = _PODS_FROM + index * each
    addresses = {
        "subnet": f"{MACHINE_PREFIX}0/24",
        "rangeStart": f"{MACHINE_PREFIX}{first}",
        "rangeEnd": f"{MACHINE_PREFIX}{first + each - 1}",
        "gateway": CONTROL,
    }
    bridge = {
        "type": "bridge",
        "bridge": BRIDGE,
        "isGateway": False,
        "hairpinMode": True,
        "ipMasq": False,
        "ipam": {"type": "host-local", "ranges": [[addresses]], "routes": [{"dst": "0.0.0.0/0", "gw": CONTROL}]},
    }
    return {"cniVersion": "1.0.0", "name": "pods", "plugins": [bridge]}
