"""The TLS side of the HTTPS server: a certificate that can be changed while it serves."""

from __future__ import annotations

import asyncio
import os
import ssl


class ServingTls:
    """The server's TLS context.  Handshakes from `load` on show the new certificate; open connections go on.

    Attributes:
        loaded: set as soon as there is a certificate.
    """

    def __init__(self) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.loaded = asyncio.Event()

    def load(self, certificate: bytes, key: bytes) -> None:
        """Serve with these, PEM.

        Raises:
            ssl.SSLError: they don't belong together.
        """
        # OpenSSL's Python face only takes paths, and the daemon's root is read-only: the key never touches a disk.
        certificate_fd, key_fd = _in_memory(certificate), _in_memory(key)
        try:
            self.context.load_cert_chain(f"/proc/self/fd/{certificate_fd}", f"/proc/self/fd/{key_fd}")
        finally:
            os.close(certificate_fd)
            os.close(key_fd)
        self.loaded.set()


def _in_memory(content: bytes) -> int:
    fd = os.memfd_create("pem", os.MFD_CLOEXEC)
    os.write(fd, content)
    return fd
