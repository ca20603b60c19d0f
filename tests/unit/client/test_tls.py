"""The TLS context of a client: certificates that do not work raise an error with the reason."""

import ssl
import tempfile
from pathlib import Path

import pytest

from konverge.client.credentials import TlsMaterial
from konverge.client.tls import TlsOptions, handshake_hint, make_context
from konverge.errors import ConfigError
from konverge_testing.apiserver.certificates import Authority


def material(certificate: bytes | None = None) -> TlsMaterial:
    authority = Authority.create("an authority")
    pair = authority.client("jane")
    return TlsMaterial(
        ca=authority.certificate, certificate=pair.certificate if certificate is None else certificate, key=pair.key
    )


def test_a_client_certificate_is_loaded_and_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    make_context(material(), TlsOptions())
    assert list(tmp_path.iterdir()) == []


def test_certificate_and_key_mismatch_is_an_error_that_shows_neither() -> None:
    other = material()
    with pytest.raises(ConfigError, match="the client certificate and its key do not work") as caught:
        make_context(material(other.certificate), TlsOptions())
    assert "BEGIN" not in str(caught.value)


def test_error_for_a_missing_temporary_folder_names_what_to_mount(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "absent"))
    with pytest.raises(ConfigError, match=r"OpenSSL reads files alone.*mount a writable /tmp"):
        make_context(material(), TlsOptions())


@pytest.mark.parametrize(
    ("error", "strict", "words"),
    [
        (
            "[SSL] certificate verify failed: Missing Authority Key Identifier",
            None,
            "load the configuration with strict_x509=False",
        ),
        ("[SSL] certificate verify failed: Missing Authority Key Identifier", False, ""),
        ("[SSL] certificate verify failed: Hostname mismatch, not valid for 'a'", None, "set tls-server-name"),
        ("[SSL] certificate verify failed: IP address mismatch, not valid for '::1'", None, "set tls-server-name"),
        ("[SSL] certificate verify failed: unable to get local issuer certificate", None, "did not sign the server"),
        (
            "[SSL] certificate verify failed: self-signed certificate in certificate chain",
            None,
            "did not sign the server",
        ),
        ("[SSL] certificate verify failed: self signed certificate", None, "did not sign the server"),
        ("[SSL] certificate verify failed: certificate has expired", None, ""),
        ("hostname mismatch of something else", None, ""),
    ],
)
def test_a_failed_handshake_says_what_can_be_done(error: str, strict: bool | None, words: str) -> None:
    hint = handshake_hint(ssl.SSLError(error), TlsOptions(strict_x509=strict))
    assert words in hint
    assert bool(words) is bool(hint)
