"""Secrets among inline values, by key and by look."""

from __future__ import annotations

from typing import Any

import pytest

from konverge.reconcilers.apps.secrets import nulls, secrets

PRIVATE_KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize(
    "values",
    [
        {"password": "hunter2"},
        {"adminPassword": "hunter2"},
        {"ADMIN_PASSWORD": "hunter2"},
        {"clientSecret": "s3cr3t"},
        {"client-secret": "s3cr3t"},
        {"accessKey": "AKIA"},
        {"access_key": "AKIA"},
        {"secretKey": "x1"},
        {"apiKey": "k-1"},
        {"api-key": "k-1"},
        {"token": "t-1"},
        {"password": 12345},
        {"password": ["hunter2"]},
        {"db": [{"auth": {"password": "hunter2"}}]},
        {"tls": {"file": PRIVATE_KEY}},
        {"anything": "prefix " + PRIVATE_KEY.replace("RSA ", "")},
    ],
    ids=str,
)
def test_what_looks_like_a_secret_is_found(values: dict[str, Any]) -> None:
    assert len(secrets(values, ".values")) == 1


@pytest.mark.parametrize(
    "values",
    [
        {"password": ""},
        {"password": None},
        {"password": "  "},
        {"password": "<set by the operator>"},
        {"password": "${DB_PASSWORD}"},
        {"password": "{{ .Values.global.password }}"},
        {"password": "changeme"},
        {"password": "CHANGE-ME"},
        {"password": "******"},
        {"generatePassword": True},
        {"existingSecret": "shop-db"},
        {"tokenLifetime": "1h"},
        {"accessKeys": 3},
        {"secrets": {"create": True}},
        {"passwordPolicy": "strict"},
        {"certificate": "-----BEGIN CERTIFICATE-----\nMIID\n-----END CERTIFICATE-----"},
    ],
    ids=str,
)
def test_what_holds_no_secret_is_allowed(values: dict[str, Any]) -> None:
    assert secrets(values, ".values") == []


def test_paths_are_told_and_never_values() -> None:
    found = secrets({"db": {"password": "hunter2"}, "list": [{"token": "t-1"}]}, "spec.values.inline")
    assert found == ["spec.values.inline.db.password", "spec.values.inline.list[0].token"]


def test_nulls_are_found_by_path() -> None:
    assert nulls({"a": None, "b": {"c": [1, None]}, "d": 0}, ".v") == [".v.a", ".v.b.c[1]"]
