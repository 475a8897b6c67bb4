from __future__ import annotations

import ssl
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest
from cryptography import x509

from cluster.scheduler.certificates import (
    CA_LIFE,
    CA_RENEWED_BEFORE,
    SERVING_LIFE,
    SERVING_RENEWED_BEFORE,
    CertificateError,
    Material,
    make,
    renewed,
    serving_until,
)
from cluster.scheduler.serving import ServingTls

HOSTS = ("hami-scheduler.hami-hub.svc", "hami-scheduler")
NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)


def handshake(served: Material, trusted: bytes, host: str) -> None:
    """One TLS handshake in memory, as strict as Python 3.13's default."""
    tls = ServingTls()
    tls.load(served.certificate, served.key)
    client = ssl.create_default_context(cadata=trusted.decode())
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(to_client, to_server, server_hostname=host),
        tls.context.wrap_bio(to_server, to_client, server_side=True),
    ]
    while sides:
        for side in list(sides):
            try:
                side.do_handshake()
                sides.remove(side)
            except ssl.SSLWantReadError:
                pass


def test_a_client_with_the_bundle_trusts_the_server():
    made = make(HOSTS, datetime.now(timezone.utc))
    for host in HOSTS:
        handshake(made, made.ca, host)


def test_another_name_or_another_ca_is_not_trusted():
    made, other = (make(HOSTS, datetime.now(timezone.utc)) for _ in range(2))
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(made, made.ca, "elsewhere.svc")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(made, other.ca, HOSTS[0])


@pytest.mark.parametrize(
    ("after", "due"),
    [
        (timedelta(), False),
        (SERVING_LIFE - SERVING_RENEWED_BEFORE - timedelta(hours=1), False),
        (SERVING_LIFE - SERVING_RENEWED_BEFORE + timedelta(hours=1), True),
        (SERVING_LIFE + timedelta(days=1), True),
    ],
    ids=["fresh", "not yet", "due", "ended"],
)
def test_the_serving_certificate_is_renewed_in_time_by_the_same_ca(after, due):
    made = make(HOSTS, NOW)
    again = renewed(made, HOSTS, NOW + after)
    assert (again is not None) == due
    if again is not None:
        assert (again.ca, again.ca_key) == (made.ca, made.ca_key)
        assert serving_until(again) > serving_until(made)


def test_a_new_host_needs_a_new_certificate():
    made = make(HOSTS, NOW)
    assert renewed(made, HOSTS[:1], NOW) is None
    again = renewed(made, (*HOSTS, "renamed.svc"), NOW)
    assert again is not None
    assert again.ca == made.ca


def test_a_new_ca_goes_in_front_and_the_old_one_stays_trusted():
    made = make(HOSTS, NOW)
    later = NOW + CA_LIFE - CA_RENEWED_BEFORE + timedelta(days=1)
    while (current := renewed(made, HOSTS, later)) is not None and current.ca == made.ca:
        made = current
    assert current is not None
    assert x509.load_pem_x509_certificates(current.ca)[1:] == x509.load_pem_x509_certificates(made.ca)
    assert renewed(current, HOSTS, later) is None
    # after the old CA's end only the new one is left, and whatever is served is its own
    end = NOW + CA_LIFE + timedelta(days=1)
    last = renewed(current, HOSTS, end)
    assert last is not None
    assert x509.load_pem_x509_certificates(last.ca) == x509.load_pem_x509_certificates(current.ca)[:1]
    assert renewed(last, HOSTS, end) is None


def test_what_the_old_ca_signed_is_served_on_until_it_is_due():
    old = make(HOSTS, NOW)
    new_ca = make(HOSTS, NOW)
    both = replace(old, ca=new_ca.ca + old.ca, ca_key=new_ca.ca_key)
    assert renewed(both, HOSTS, NOW) is None
    signed_by_none_of_them = replace(both, ca=new_ca.ca)
    again = renewed(signed_by_none_of_them, HOSTS, NOW)
    assert again is not None
    assert again.certificate != old.certificate


@pytest.mark.parametrize("part", ["ca", "ca_key", "certificate", "key"])
@pytest.mark.parametrize("content", [b"", b"garbage", None], ids=["missing", "garbage", "another's"])
def test_what_cannot_be_used_is_an_error_in_words(part, content):
    other = make(HOSTS, NOW)
    broken = replace(make(HOSTS, NOW), **{part: getattr(other, part) if content is None else content})
    with pytest.raises(CertificateError, match=r"^The .*\.$"):
        renewed(broken, HOSTS, NOW)
