"""The certificate pair of one application, in the form that skein's Java parts accept."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path

CERTIFICATE_FILE = ".skein.crt"
KEY_FILE = ".skein.pem"

# The name in the certificate: clients check for it, whatever address they connect to.
NAME = "skein-internal"
VALID = timedelta(days=365)
# Clocks of nodes differ: a certificate that is valid from now on may not be valid there yet.
SKEW = timedelta(days=1)


@dataclass(frozen=True)
class Credentials:
    """Certificate and key, PEM."""

    certificate: bytes
    key: bytes = field(repr=False)

    def write(self, folder: Path) -> None:
        """Put both where the processes of the application look for them."""
        for name, data in ((CERTIFICATE_FILE, self.certificate), (KEY_FILE, self.key)):
            descriptor = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with open(descriptor, "wb") as file:
                file.write(data)


def new_credentials(*, rsa: bool = False) -> Credentials:
    """A self-signed pair.

    Parameters
    ----------
    rsa
        RSA, which every Java takes; otherwise an elliptic curve, which is made in no time.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.asymmetric import rsa as rsa_keys

    key = (
        rsa_keys.generate_private_key(public_exponent=65537, key_size=2048)
        if rsa
        else ec.generate_private_key(ec.SECP256R1())
    )
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, NAME)])
    now = datetime.now(timezone.utc)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(now + VALID)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Credentials(
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
    )
