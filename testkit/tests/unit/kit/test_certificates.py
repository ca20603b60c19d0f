import ssl
from contextlib import suppress
from datetime import timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from konverge import clock
from konverge_testing.apiserver.certificates import Authority, KeyPair, signing_key


def load(pair: KeyPair) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pair.certificate)


def names(certificate: x509.Certificate, oid: x509.ObjectIdentifier) -> list[str | bytes]:
    return [attribute.value for attribute in certificate.subject.get_attributes_for_oid(oid)]


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority.create("test")


def test_a_client_certificate_names_user_and_groups(authority: Authority) -> None:
    certificate = load(authority.client("jane", groups=("dev", "ops")))
    assert names(certificate, NameOID.COMMON_NAME) == ["jane"]
    assert sorted(map(str, names(certificate, NameOID.ORGANIZATION_NAME))) == ["dev", "ops"]
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


def test_a_serving_certificate_covers_addresses_and_names(authority: Authority) -> None:
    certificate = load(authority.server("api", ("127.0.0.1", "localhost")))
    covered = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert covered.get_values_for_type(x509.IPAddress) == [ip_address("127.0.0.1")]
    assert covered.get_values_for_type(x509.DNSName) == ["localhost"]


def test_leaves_are_signed_by_their_own_authority_and_by_no_other(authority: Authority) -> None:
    leaf = load(authority.client("jane"))
    leaf.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.certificate))
    other = x509.load_pem_x509_certificate(Authority.create("test").certificate)
    with pytest.raises(InvalidSignature):
        leaf.verify_directly_issued_by(other)


def test_the_key_belongs_to_the_certificate(authority: Authority) -> None:
    pair = authority.client("jane")
    key = load_pem_private_key(pair.key, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    assert key.public_key() == load(pair).public_key()


def test_certificates_hold_now_and_for_days(authority: Authority) -> None:
    certificate = load(authority.client("jane"))
    now = clock.wall_clock()
    assert certificate.not_valid_before_utc < now
    assert timedelta(days=9) < certificate.not_valid_after_utc - now < timedelta(days=10)


async def test_certificates_issued_under_virtual_time_are_valid_for_the_server(authority: Authority) -> None:
    certificate = load(authority.client("jane"))
    issuer = x509.load_pem_x509_certificate(authority.certificate)
    assert certificate.not_valid_before_utc == issuer.not_valid_before_utc


def test_certificates_pass_the_strict_check_that_newer_pythons_make(authority: Authority, tmp_path: Path) -> None:
    pair = authority.server("api", ("127.0.0.1",))
    (tmp_path / "certificate").write_bytes(pair.certificate)
    (tmp_path / "key").write_bytes(pair.key)
    server_side = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server_side.load_cert_chain(tmp_path / "certificate", tmp_path / "key")
    client_side = ssl.create_default_context(cadata=authority.certificate.decode())
    client_side.verify_flags |= ssl.VERIFY_X509_STRICT
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = server_side.wrap_bio(to_server, to_client, server_side=True)
    client = client_side.wrap_bio(to_client, to_server, server_hostname="127.0.0.1")
    for side in (client, server, client):
        with suppress(ssl.SSLWantReadError):
            side.do_handshake()
    assert client.getpeercert()


def test_signing_keys_differ() -> None:
    assert signing_key().startswith(b"-----BEGIN EC PRIVATE KEY-----")
    assert signing_key() != signing_key()
