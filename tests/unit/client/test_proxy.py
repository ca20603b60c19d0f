import pytest

from konverge.client.proxy import checked_proxy, proxy_from_environment
from konverge.errors import ConfigError

PROXY = "http://proxy:3128"


@pytest.mark.parametrize(
    ("server", "excluded", "wanted"),
    [
        ("https://10.0.0.1:6443", "", PROXY),
        ("https://10.0.0.1:6443", "10.0.0.0/8", ""),
        ("https://10.0.0.1:6443", "10.0.0.1", ""),
        ("https://10.0.0.1:6443", "192.168.0.0/16", PROXY),
        ("https://10.0.0.1:6443", "10.0.0.1:6443", ""),
        ("https://10.0.0.1:6443", "10.0.0.1:443", PROXY),
        ("https://api.example.com", "example.com", ""),
        ("https://api.example.com", " .example.com , other", ""),
        ("https://api.example.com", "*.example.com", ""),
        ("https://api.example.com", "ample.com", PROXY),
        ("https://example.com", ".example.com", PROXY),
        ("https://API.example.com", "Example.COM", ""),
        ("https://api.example.com", "*", ""),
        ("https://[fd00::1]:6443", "fd00::/8", ""),
        ("https://localhost:6443", "", ""),
        ("https://127.0.0.1:6443", "", ""),
        ("https://[::1]:6443", "", ""),
        ("http://10.0.0.1", "", ""),
    ],
)
def test_the_proxy_that_the_environment_asks_for(server: str, excluded: str, wanted: str) -> None:
    assert proxy_from_environment(server, {"HTTPS_PROXY": PROXY, "NO_PROXY": excluded}) == wanted


def test_lower_case_names_count_too_and_a_scheme_may_be_missing() -> None:
    assert proxy_from_environment("http://10.0.0.1", {"http_proxy": "proxy:1"}) == "http://proxy:1"
    assert proxy_from_environment("http://10.0.0.1", {"http_proxy": "proxy:1", "no_proxy": "10.0.0.1"}) == ""


def test_a_proxy_that_is_not_supported_says_so() -> None:
    with pytest.raises(ConfigError, match="socks5"):
        checked_proxy("socks5://proxy:1080")
    assert checked_proxy("") == ""
