"""Secrets among inline values, recognised by key and by form."""

from typing import Any

import pytest

from konverge.reconcilers.apps.secrets import secrets

PRIVATE_KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----"
REF = {"name": "shop-db", "key": "password"}

FOUND: tuple[tuple[Any, str], ...] = (
    # as the original finds them
    ({"password": "hunter2"}, ".password"),
    ({"adminPassword": "hunter2"}, ".adminPassword"),
    ({"ADMIN_PASSWORD": "hunter2"}, ".ADMIN_PASSWORD"),
    ({"clientSecret": "s3cr3t"}, ".clientSecret"),
    ({"client-secret": "s3cr3t"}, ".client-secret"),
    ({"db": {"pass": "hunter2"}}, ".db.pass"),
    ({"pwd": "hunter2"}, ".pwd"),
    ({"passwords": {"admin": "hunter2"}}, ".passwords.admin"),
    ({"userPasswords": ["hunter2"]}, ".userPasswords[0]"),
    ({"credentials": "shop:hunter2"}, ".credentials"),
    ({"credentials": {"user": "shop", "key": "hunter2"}}, ".credentials.key"),
    ({"dbCredentials": {"password": "hunter2"}}, ".dbCredentials.password"),
    ({"accessKey": "AKIA"}, ".accessKey"),
    ({"access_key": "AKIA"}, ".access_key"),
    ({"secretKey": "x1"}, ".secretKey"),
    ({"apiKey": "k-1"}, ".apiKey"),
    ({"api-key": "k-1"}, ".api-key"),
    ({"token": "t-1"}, ".token"),
    ({"password": 12345}, ".password"),
    ({"db": [{"auth": {"password": "hunter2"}}]}, ".db[0].auth.password"),
    ({"tls": {"file": PRIVATE_KEY}}, ".tls.file"),
    # ours: lists, and text around a key
    ({"password": ["hunter2"]}, ".password[0]"),
    ({"anything": "prefix " + PRIVATE_KEY.replace("RSA ", "")}, ".anything"),
    # ours: other names
    ({"passwd": "hunter2"}, ".passwd"),
    ({"rootPasswd": "hunter2"}, ".rootPasswd"),
    ({"passphrase": "hunter2"}, ".passphrase"),
    ({"SMTP_PASS": "hunter2"}, ".SMTP_PASS"),
    ({"dbPwd": "hunter2"}, ".dbPwd"),
    ({"authToken": "t-1"}, ".authToken"),
    ({"GITHUB_TOKEN": "t-1"}, ".GITHUB_TOKEN"),
    ({"privateKey": "MIIE"}, ".privateKey"),
    ({"ssh_private_key": "MIIE"}, ".ssh_private_key"),
    ({"AWS_SECRET_ACCESS_KEY": "wJalr"}, ".AWS_SECRET_ACCESS_KEY"),
    ({"OPENAI_API_KEY": "sk-1"}, ".OPENAI_API_KEY"),
    # ours: the name is beside or above the value
    ({"env": [{"name": "DB_PASSWORD", "value": "hunter2"}]}, ".env[0].value"),
    ({"env": [{"name": "A", "value": "b"}, {"value": "t-1", "name": "API_TOKEN"}]}, ".env[1].value"),
    ({"parameters": [{"name": "auth.password", "value": "hunter2"}]}, ".parameters[0].value"),
    ({"password": {"value": "hunter2"}}, ".password.value"),
    ({"auth": {"token": {"value": "t-1", "length": 3}}}, ".auth.token.value"),
    ({"passwords": {"admin": {"password": {"value": ["hunter2"]}}}}, ".passwords.admin.password.value[0]"),
    # ours: passwords inside URLs, under any key
    ({"databaseUrl": "postgres://shop:hunter2@db:5432/shop"}, ".databaseUrl"),
    ({"cache": "redis://:hunter2@cache:6379"}, ".cache"),
    ({"broker": ["amqp://a:${PASS}@x", "amqp+ssl://a:hunter2@x"]}, ".broker[1]"),
    ({"config": "[db]\nurl = mysql://shop:hunter2@db/shop\n"}, ".config"),
    ({"env": [{"name": "DSN", "value": "https://me:hunter2@host/x"}]}, ".env[0].value"),
    ({"valueFrom": {"url": "https://me:hunter2@host/x"}}, ".valueFrom.url"),
)

NOT_FOUND: tuple[Any, ...] = (
    # nothing, or a placeholder for something
    {"password": ""},
    {"password": None},
    {"password": "  "},
    {"password": "<set by the operator>"},
    {"password": "<set via externalsecret>"},
    {"password": "${DB_PASSWORD}"},
    {"password": "$(DB_PASSWORD)"},
    {"password": "{{ .Values.global.password }}"},
    {"password": "changeme"},
    {"password": "CHANGE-ME"},
    {"password": "******"},
    {"password": {"value": ""}},
    {"env": [{"name": "DB_PASSWORD", "value": ""}, {"name": "TOKEN", "value": "${TOKEN}"}, {"name": "API_TOKEN"}]},
    {"url": "postgres://shop:$(DB_PASSWORD)@db/shop"},
    {"url": "postgres://shop:<password>@db/shop"},
    {"url": "postgres://shop:{{password}}@db/shop"},
    # a switch
    {"generatePassword": True},
    {"usePassword": "true"},
    {"automountServiceAccountToken": False},
    {"env": [{"name": "REQUIRE_PASSWORD", "value": "yes"}]},
    # a reference
    {"existingSecret": "shop-db"},
    {
        "auth": {
            "existingSecret": "shop-db",
            "existingSecretPassword": "shop-db",
            "secretKeys": {"userPasswordKey": "p"},
        }
    },
    {"secretName": "shop-tls"},
    {"passwordSecretRef": {"name": "shop-db", "key": "password"}},
    {"passwordSecretRef": "shop-db"},
    {"tokenSecretName": "shop-db"},
    {"password": {"secretKeyRef": REF}},
    {"password": {"valueFrom": {"secretKeyRef": REF}}},
    {"env": [{"name": "DB_PASSWORD", "valueFrom": {"secretKeyRef": REF}}]},
    {"envFrom": [{"secretRef": {"name": "shop-db"}}]},
    {"secretRef": {"token": "shop-db"}},
    {"secretName": "shop-db", "secretKey": "password"},
    {"data": [{"secretKey": "password", "remoteRef": {"key": "shop/db"}}]},
    {"imagePullSecrets": [{"name": "regcred"}], "imagePullSecret": "regcred"},
    {"ingress": {"tlsSecret": "shop-tls"}},
    {"volumes": [{"name": "secret", "secret": {"secretName": "shop-db"}}]},
    {"privateKey": {"algorithm": "ECDSA", "size": 256}},
    {"privateKey": "/etc/tls/tls.key", "passwordFile": "/run/secrets/db"},
    {"env": [{"name": "DB_PASSWORD_FILE", "value": "/run/secrets/db"}]},
    {"password": "vault:secret/data/shop#password"},
    {"password": "ref+vault://secret/shop#/password"},
    # beside the secrets of a collection
    {"credentials": {"username": "shop", "region": "eu", "existingSecret": "shop-db"}},
    {"credentials": {"secretRef": "shop-db"}, "existingCredentials": "shop-db", "passwords": {}},
    {"passwords": {"admin": "${ADMIN}"}, "credentials": [], "pass": ""},
    # a name that only resembles a secret's
    {"tokenLifetime": "1h", "maxTokens": 4096},
    {"accessKeys": 3},
    {"secrets": {"create": True}},
    {"passwordPolicy": "strict"},
    {"bypass": "internal", "PWD": "/srv", "compass": "north", "proxy_pass": "http://backend"},
    {"publicKey": "ssh-ed25519 AAAA"},
    {"certificate": "-----BEGIN CERTIFICATE-----\nMIID\n-----END CERTIFICATE-----"},
    {"tolerations": [{"key": "token", "operator": "Equal", "value": "a"}]},
    # a URL without a password
    {"url": "https://charts.example.com:8443/a@b"},
    {"url": "https://me@example.com/"},
    {"image": "oci://shop:1.0@sha256:0123"},
    {"email": "mailto:me@example.com"},
)


@pytest.mark.parametrize(("values", "where"), FOUND, ids=[where for _, where in FOUND])
def test_a_value_that_looks_like_a_secret_is_reported_with_its_path(values: dict[str, Any], where: str) -> None:
    assert secrets(values, "") == [where]


@pytest.mark.parametrize("values", NOT_FOUND, ids=str)
def test_references_placeholders_and_switches_are_not_reported_as_secrets(values: dict[str, Any]) -> None:
    assert secrets(values, ".values") == []


def test_secrets_are_reported_by_path_in_values_order_and_never_by_value() -> None:
    values = {"db": {"password": "hunter2"}, "list": [{"token": "t-1"}, {"token": "t-2"}], "url": "a://b:hunter2@c"}
    assert secrets(values, "spec.values.inline") == [
        "spec.values.inline.db.password",
        "spec.values.inline.list[0].token",
        "spec.values.inline.list[1].token",
        "spec.values.inline.url",
    ]


def test_secrets_are_found_at_any_depth() -> None:
    values: dict[str, Any] = {"password": "hunter2", "nothing": None}
    for _ in range(5000):
        values = {"a": values}
    assert len(secrets(values, "")) == 1


@pytest.mark.timeout(20)
@pytest.mark.parametrize("text", ["x" * 1_000_000, "a." * 500_000, "a://" * 250_000, "-----BEGIN " * 90_000])
def test_searching_a_long_text_for_secrets_takes_linear_time(text: str) -> None:
    """For each letter of it a scheme used to be searched up to its end: half a megabyte held the daemon for two minutes."""
    assert secrets({"motd": text}, ".values") == []
    assert secrets({"motd": f"{text} a://b:hunter2@c"}, ".values") == [".values.motd"]
