"""The command lines of the control plane: what each program is told, and nothing about when it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.rig import network
from tests.cluster.rig.pki import Pki

# Who asks the API server, each with a name of its own so that the audit log tells them apart.
USERS = (
    "admin",
    "system:kube-controller-manager",
    "system:kube-scheduler",
    "system:kube-proxy",
    "system:coredns",
)
BRIDGED_PACKETS = Path("/proc/sys/net/bridge/bridge-nf-call-iptables")  # without it, answers of pods bypass the NAT
ETCD = f"http://{network.CONTROL}:2379"
AUDIT_POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
"""


@dataclass(frozen=True)
class ControlPlane:
    """`folder` is the cluster's; `audited` is asked at each start of the API server."""

    folder: Path
    pki: Pki
    audited: Callable[[], bool]

    def write_files(self) -> None:
        (self.folder / "resolv.conf").write_text(network.RESOLV)
        (self.folder / "audit-policy.yaml").write_text(AUDIT_POLICY)
        (self.folder / "Corefile").write_text(f"""\
.:53 {{
    bind {network.DNS}
    errors
    ready {network.DNS}:8181
    kubernetes {network.DOMAIN} in-addr.arpa {{
        kubeconfig {self.pki.kubeconfig("system:coredns")}
        pods insecure
    }}
    cache 5
}}
""")
        (self.folder / "kube-proxy.yaml").write_text(f"""\
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
hostnameOverride: node0
bindAddress: {network.CONTROL}
healthzBindAddress: {network.CONTROL}:10256
metricsBindAddress: {network.CONTROL}:10249
clusterCIDR: {network.MACHINE_PREFIX}0/24
detectLocalMode: BridgeInterface
detectLocal: {{bridgeInterface: {network.BRIDGE}}}
nftables: {{masqueradeAll: {str(not BRIDGED_PACKETS.exists()).lower()}}}
conntrack: {{maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}}
clientConnection: {{kubeconfig: "{self.pki.kubeconfig("system:kube-proxy")}"}}
""")

    def etcd(self) -> list[str]:
        peer = f"http://{network.CONTROL}:2380"
        return [
            "etcd",
            f"--data-dir={self.folder / 'etcd'}",
            "--unsafe-no-fsync",
            f"--listen-client-urls={ETCD}",
            f"--advertise-client-urls={ETCD}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--quota-backend-bytes=4294967296",
        ]

    def apiserver(self) -> list[str]:
        pki = self.pki
        audit = [f"--audit-policy-file={self.folder / 'audit-policy.yaml'}", f"--audit-log-path={self.audit_log}"]
        audit += ["--audit-log-maxsize=10000"]  # MB; else the records of a long run's beginning are put aside
        return [
            "kube-apiserver",
            f"--etcd-servers={ETCD}",
            f"--bind-address={network.CONTROL}",
            f"--advertise-address={network.CONTROL}",
            f"--secure-port={network.API_PORT}",
            f"--tls-cert-file={pki.file('apiserver.crt')}",
            f"--tls-private-key-file={pki.file('apiserver.key')}",
            f"--client-ca-file={pki.ca}",
            f"--token-auth-file={pki.tokens}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--allow-privileged=true",
            f"--service-cluster-ip-range={network.SERVICES}",
            f"--service-account-issuer=https://kubernetes.default.svc.{network.DOMAIN}",
            f"--service-account-key-file={pki.file('accounts.pub')}",
            f"--service-account-signing-key-file={pki.file('accounts.key')}",
            "--kubelet-preferred-address-types=InternalIP",  # else logs and exec look up the node's name
            *(audit if self.audited() else []),
        ]

    @property
    def audit_log(self) -> Path:
        return self.folder / "log" / "audit.jsonl"

    def controller_manager(self) -> list[str]:
        return [
            "kube-controller-manager",
            f"--kubeconfig={self.pki.kubeconfig('system:kube-controller-manager')}",
            "--controllers=*,-node-ipam-controller",
            "--leader-elect=false",
            "--use-service-account-credentials",
            f"--root-ca-file={self.pki.ca}",
            f"--service-account-private-key-file={self.pki.file('accounts.key')}",
            f"--cluster-signing-cert-file={self.pki.ca}",
            f"--cluster-signing-key-file={self.pki.file('ca.key')}",
            f"--bind-address={network.CONTROL}",
        ]

    def scheduler(self) -> list[str]:
        return [
            "kube-scheduler",
            f"--kubeconfig={self.pki.kubeconfig('system:kube-scheduler')}",
            "--leader-elect=false",
            f"--bind-address={network.CONTROL}",
        ]

    def proxy(self) -> list[str]:
        return ["kube-proxy", f"--config={self.folder / 'kube-proxy.yaml'}"]

    def dns(self) -> list[str]:
        return ["coredns", "-conf", str(self.folder / "Corefile")]
