"""Certificates, keys, tokens and kubeconfigs of one cluster, good for a few days."""

from __future__ import annotations

import base64
import datetime
import ipaddress
import json
import secrets
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.cluster.rig import network

ADMIN = "admin"
_GROUPS = {ADMIN: "system:masters", "system:coredns": "system:masters"}  # others get their rights by name
LIFETIME = datetime.timedelta(days=7)


@dataclass(frozen=True)
class Pki:
    """The folder with them all; `make` fills it."""

    folder: Path

    @property
    def ca(self) -> Path:
        return self.folder / "ca.crt"

    @property
    def tokens(self) -> Path:
        return self.folder / "tokens.csv"

    def file(self, name: str) -> str:
        return str(self.folder / name)

    def kubeconfig(self, user: str) -> str:
        """Path of the kubeconfig of a user, valid inside the cluster's network."""
        return self.file(f"{user}.kubeconfig")

    def token(self, user: str) -> str:
        rows = (line.split(",") for line in self.tokens.read_text().splitlines())
        return next(row[0] for row in rows if row[1] == user)

    def make(self, users: list[str]) -> None:
        """Make everything, with a token and a kubeconfig for each user; nodes are `system:node:NAME`."""
        self.folder.mkdir()
        ca_key, ca = _certificate("hami-hub test cluster", None)
        key, certificate = _certificate("kube-apiserver", (ca_key, ca))
        _write_pem(self.folder, "ca", ca_key, ca)
        _write_pem(self.folder, "apiserver", key, certificate)
        accounts = ec.generate_private_key(ec.SECP256R1())
        (self.folder / "accounts.key").write_bytes(_pem(accounts))
        public = accounts.public_key()
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        (self.folder / "accounts.pub").write_bytes(public.public_bytes(serialization.Encoding.PEM, form))
        rows = []
        for user in users:
            group = "system:nodes" if user.startswith("system:node:") else _GROUPS.get(user, "")
            token = secrets.token_hex(16)
            rows.append(f"{token},{user},{user}" + (f',"{group}"' if group else ""))
            server = f"https://{network.CONTROL}:{network.API_PORT}"
            write_kubeconfig(Path(self.kubeconfig(user)), server, self.ca, token)
        self.tokens.write_text("\n".join(rows) + "\n")


def write_kubeconfig(path: Path, server: str, ca: Path, token: str) -> None:
    """A kubeconfig with its CA in it, so that the file is enough."""
    authority = base64.b64encode(ca.read_bytes()).decode()
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": {"server": server, "certificate-authority-data": authority}}],
        "users": [{"name": "user", "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "user"}}],
        "current-context": "test",
    }
    path.touch(mode=0o600)
    path.write_text(json.dumps(config))


Signer = tuple[ec.EllipticCurvePrivateKey, x509.Certificate]


def _certificate(name: str, signer: Signer | None) -> Signer:
    """A key and its certificate: a CA, or a server's that `signer` vouches for."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.timezone.utc)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(signer[1].subject if signer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + LIFETIME)
        .add_extension(x509.BasicConstraints(ca=signer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    if signer:
        builder = builder.add_extension(x509.SubjectAlternativeName(_server_names()), critical=False)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer[0].public_key())
        builder = builder.add_extension(issuer, critical=False)
    else:
        builder = builder.add_extension(_may_sign(), critical=True)
    return key, builder.sign(signer[0] if signer else key, hashes.SHA256())


def _server_names() -> list[x509.GeneralName]:
    addresses = (network.CONTROL, network.API_SERVICE, "127.0.0.1")
    service = "kubernetes.default.svc"
    names = ("localhost", "kubernetes", "kubernetes.default", service, f"{service}.{network.DOMAIN}")
    return [*(x509.IPAddress(ipaddress.ip_address(each)) for each in addresses), *map(x509.DNSName, names)]


def _may_sign() -> x509.KeyUsage:
    off = dict.fromkeys(
        (
            "content_commitment",
            "key_encipherment",
            "data_encipherment",
            "key_agreement",
            "encipher_only",
            "decipher_only",
        ),
        False,
    )
    return x509.KeyUsage(digital_signature=True, key_cert_sign=True, crl_sign=True, **off)


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )


def _write_pem(folder: Path, name: str, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
    file = folder / f"{name}.key"
    file.touch(mode=0o600)
    file.write_bytes(_pem(key))
    (folder / f"{name}.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
