import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RegisterClientRequest(_message.Message):
    __slots__ = ("registration_nonce_jwt", "public_key_pem", "private_ipv4", "private_ipv6", "hostname")
    REGISTRATION_NONCE_JWT_FIELD_NUMBER: _ClassVar[int]
    PUBLIC_KEY_PEM_FIELD_NUMBER: _ClassVar[int]
    PRIVATE_IPV4_FIELD_NUMBER: _ClassVar[int]
    PRIVATE_IPV6_FIELD_NUMBER: _ClassVar[int]
    HOSTNAME_FIELD_NUMBER: _ClassVar[int]
    registration_nonce_jwt: str
    public_key_pem: bytes
    private_ipv4: str
    private_ipv6: str
    hostname: str
    def __init__(self, registration_nonce_jwt: _Optional[str] = ..., public_key_pem: _Optional[bytes] = ..., private_ipv4: _Optional[str] = ..., private_ipv6: _Optional[str] = ..., hostname: _Optional[str] = ...) -> None: ...

class RegisterClientResponse(_message.Message):
    __slots__ = ("client_certificate_pem", "expires_at")
    CLIENT_CERTIFICATE_PEM_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    client_certificate_pem: bytes
    expires_at: _timestamp_pb2.Timestamp
    def __init__(self, client_certificate_pem: _Optional[bytes] = ..., expires_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping[str, object]]] = ...) -> None: ...
