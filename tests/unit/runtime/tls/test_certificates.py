"""Self-signed certificates: when each is due, and that clients trust the generated certificates."""

import ssl
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509

from konverge.runtime.tls.certificates import Lives, Material, authority_name, expiry_of, is_of_authority, renewed

NOW = datetime(2030, 1, 1, tzinfo=UTC)
AUTHORITY = authority_name(("web", "shop-webhooks"))
HOSTS = ("hooks.web.svc", "hooks.web.svc.cluster.local", "127.0.0.1")
LIVES = Lives(certificate=timedelta(days=90), authority=timedelta(days=900))


def due(held: Material | None, days: float, hosts: tuple[str, ...] = HOSTS) -> Material:
    return renewed(held, authority=AUTHORITY, hosts=hosts, now=NOW + timedelta(days=days), lives=LIVES)


@pytest.fixture(scope="module")
def first() -> Material:
    return due(None, 0)


def authorities(material: Material) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(material.trusted)


def serving(material: Material) -> x509.Certificate:
    return x509.load_pem_x509_certificate(material.certificate)


def signer(material: Material) -> int:
    """The trusted authority that signed the serving certificate."""
    for index, one in enumerate(authorities(material)):
        try:
            serving(material).verify_directly_issued_by(one)
        except Exception:
            continue
        return index
    raise AssertionError("nobody that is trusted signed it")


@pytest.mark.parametrize("days", [0, 30, 59.9])
def test_nothing_is_due_while_more_than_a_third_is_left(first: Material, days: float) -> None:
    assert due(first, days) is first


def test_the_certificate_is_replaced_when_a_third_is_left(first: Material) -> None:
    second = due(first, 60.1)
    assert (second.trusted, second.authority_key) == (first.trusted, first.authority_key)
    assert second.certificate != first.certificate
    assert second.key != first.key
    assert expiry_of(second.certificate) == NOW + timedelta(days=150.1)


def test_a_name_that_is_missing_makes_another_certificate_due(first: Material) -> None:
    second = due(first, 1, (*HOSTS, "other.web.svc"))
    assert second.trusted == first.trusted
    assert due(second, 1) is second


def test_an_expired_certificate_is_the_end_of_all(first: Material) -> None:
    again = due(first, 91)
    assert again.trusted != first.trusted
    assert len(authorities(again)) == 1


def at_the_end(material: Material, until: float) -> Material:
    """Live from renewal to renewal."""
    for days in range(25, int(until), 25):
        material = due(material, days)
    return material


def test_an_authority_is_followed_by_another_and_both_are_trusted(first: Material) -> None:
    before = at_the_end(first, 600)
    followed = due(before, 600.1)
    old, young = authorities(before), authorities(followed)
    assert young[1:] == old
    assert signer(followed) == 1, "the younger signs only once it has been trusted for a while"
    assert followed.certificate == before.certificate


def test_the_younger_authority_signs_once_it_has_been_trusted_for_a_while(first: Material) -> None:
    before = at_the_end(first, 600)
    followed = due(before, 612)  # the certificate of day 525 is due from day 585 on: both are due at once
    assert signer(followed) == 1
    assert followed.certificate == before.certificate
    assert due(followed, 612.01) is followed
    later = due(followed, 612.1)
    assert signer(later) == 0
    assert later.trusted == followed.trusted


def test_expired_authority_is_dropped_when_its_successor_arrives(first: Material) -> None:
    material = at_the_end(first, 601)
    for days in range(602, 1300, 20):
        material = due(material, days)
    assert all(one.not_valid_after_utc > NOW + timedelta(days=1202) for one in authorities(material))


@pytest.mark.parametrize("part", ["trusted", "authority_key", "certificate", "key"])
@pytest.mark.parametrize("content", [b"", b"nonsense"])
def test_an_unreadable_certificate_is_made_anew(first: Material, part: str, content: bytes) -> None:
    from dataclasses import replace

    broken = replace(first, **{part: content})
    assert due(broken, 1).trusted != first.trusted


@pytest.mark.parametrize("part", ["trusted", "authority_key", "certificate", "key"])
def test_parts_that_do_not_belong_together_are_made_anew(first: Material, part: str) -> None:
    from dataclasses import replace

    other = due(None, 0)
    mixed = replace(first, **{part: getattr(other, part)})
    made = due(mixed, 1)
    assert made.trusted not in (first.trusted, other.trusted)


def test_a_client_that_trusts_the_bundle_accepts_the_server(first: Material) -> None:
    leaf = serving(first)
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["hooks.web.svc", "hooks.web.svc.cluster.local"]
    assert [str(one) for one in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]
    context = ssl.create_default_context(cadata=first.trusted.decode())
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    assert len(context.get_ca_certs()) == 1


def test_a_bundle_is_ours_where_every_certificate_is(first: Material) -> None:
    assert is_of_authority(first.trusted, AUTHORITY)
    assert not is_of_authority(first.trusted, authority_name(("web", "other")))
    assert not is_of_authority(first.trusted + first.certificate, AUTHORITY)
    assert not is_of_authority(b"nonsense", AUTHORITY)


def test_a_key_is_in_no_repr(first: Material) -> None:
    assert "PRIVATE" not in repr(first)
    assert "PRIVATE" in first.key.decode()
