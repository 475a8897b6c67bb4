"""The scheduler's own CA and serving certificate: made, and made again before they end.

Decides and makes only; `certificate_keeper` carries them to the Secret, to the webhook's configuration and to the
server. A new CA goes in front of the old ones, which stay in the bundle until they end, and signs from the next
serving certificate on: whoever read the bundle a day ago still trusts what is served.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

CA_LIFE, CA_RENEWED_BEFORE = timedelta(days=3650), timedelta(days=365)
SERVING_LIFE, SERVING_RENEWED_BEFORE = timedelta(days=90), timedelta(days=30)
# Clocks of a cluster's nodes differ a little.
_BACKDATED = timedelta(minutes=10)
_CA_NAME = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "hami-hub scheduler CA")])


class CertificateError(ValueError):
    """What should be certificates and keys isn't."""


@dataclass(frozen=True, slots=True)
class Material:
    """Everything as PEM.

    Attributes:
        ca: bundle of the CA's certificates, the one that signs first.
        ca_key: private key of the first.
        certificate: what is served.
        key: its private key.
    """

    ca: bytes
    ca_key: bytes
    certificate: bytes
    key: bytes


def make(hosts: Sequence[str], now: datetime) -> Material:
    """A new CA and a serving certificate for the DNS names `hosts`."""
    key = ec.generate_private_key(ec.SECP256R1())
    ca = _ca_certificate(key, now)
    certificate, serving_key = _serving(hosts, ca, key, now)
    return Material(ca=_pem(ca), ca_key=_key_pem(key), certificate=certificate, key=serving_key)


def renewed(material: Material, hosts: Sequence[str], now: datetime) -> Material | None:
    """What should take the place of `material`; None if it is good as it is.

    Raises:
        CertificateError: a part of it can't be read, or a key doesn't fit its certificate.
    """
    try:
        bundle = x509.load_pem_x509_certificates(material.ca)
        ca_key = serialization.load_pem_private_key(material.ca_key, None)
        serving = x509.load_pem_x509_certificate(material.certificate)
        serving_key = serialization.load_pem_private_key(material.key, None)
    except (ValueError, TypeError) as error:
        raise CertificateError(f"The certificates can't be read ({error}).") from None
    ca = bundle[0]
    if not isinstance(ca_key, ec.EllipticCurvePrivateKey) or ca_key.public_key() != ca.public_key():
        raise CertificateError("The CA's key doesn't belong to its certificate.")
    if serving_key.public_key() != serving.public_key():
        raise CertificateError("The serving key doesn't belong to its certificate.")

    alive = [one for one in bundle if one.not_valid_after_utc > now]
    changed = material
    if ca.not_valid_after_utc - now < CA_RENEWED_BEFORE:
        ca_key = ec.generate_private_key(ec.SECP256R1())
        ca = _ca_certificate(ca_key, now)
        alive = [ca, *alive]
        changed = replace(changed, ca_key=_key_pem(ca_key))
    if len(alive) != len(bundle) or alive[0] is not bundle[0]:
        changed = replace(changed, ca=b"".join(map(_pem, alive)))
    if not _serves(serving, hosts, alive, now):
        certificate, key = _serving(hosts, ca, ca_key, now)
        changed = replace(changed, certificate=certificate, key=key)
    return changed if changed != material else None


def serving_until(material: Material) -> datetime:
    """When the serving certificate ends."""
    return x509.load_pem_x509_certificate(material.certificate).not_valid_after_utc


def _serves(
    serving: x509.Certificate, hosts: Sequence[str], trusted: Sequence[x509.Certificate], now: datetime
) -> bool:
    """Whether `serving` will do: long enough, for all of `hosts`, signed by one of `trusted`."""
    if serving.not_valid_after_utc - now < SERVING_RENEWED_BEFORE or serving.not_valid_before_utc > now:
        return False
    try:
        names = serving.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return False
    return set(hosts) <= set(names.get_values_for_type(x509.DNSName)) and any(_signed(serving, ca) for ca in trusted)


def _signed(certificate: x509.Certificate, ca: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(ca)
    except Exception:  # wrong name, wrong type of key, wrong signature: each has its own class
        return False
    return True


def _ca_certificate(key: ec.EllipticCurvePrivateKey, now: datetime) -> x509.Certificate:
    usage = dict.fromkeys(
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
    return (
        _builder(_CA_NAME, _CA_NAME, key.public_key(), now, CA_LIFE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.KeyUsage(digital_signature=True, key_cert_sign=True, crl_sign=True, **usage), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )


def _serving(
    hosts: Sequence[str], ca: x509.Certificate, ca_key: ec.EllipticCurvePrivateKey, now: datetime
) -> tuple[bytes, bytes]:
    key = ec.generate_private_key(ec.SECP256R1())
    # A name may have 64 letters at most, a host more: the names that count are the alternative ones.
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "hami-hub scheduler")])
    certificate = (
        _builder(subject, ca.subject, key.public_key(), now, SERVING_LIFE)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host) for host in hosts]), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    return _pem(certificate), _key_pem(key)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, life: timedelta
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + life)
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
