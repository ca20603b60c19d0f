import datetime

from google.protobuf import empty_pb2 as _empty_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RenewCertificateRequest(_message.Message):
    __slots__ = ("public_key_pem",)
    PUBLIC_KEY_PEM_FIELD_NUMBER: _ClassVar[int]
    public_key_pem: bytes
    def __init__(self, public_key_pem: _Optional[bytes] = ...) -> None: ...

class RenewCertificateResponse(_message.Message):
    __slots__ = ("client_certificate_pem", "expires_at")
    CLIENT_CERTIFICATE_PEM_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    client_certificate_pem: bytes
    expires_at: _timestamp_pb2.Timestamp
    def __init__(self, client_certificate_pem: _Optional[bytes] = ..., expires_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping[str, object]]] = ...) -> None: ...

class ConfigStatusResponse(_message.Message):
    __slots__ = ("etag", "last_modified", "size")
    ETAG_FIELD_NUMBER: _ClassVar[int]
    LAST_MODIFIED_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    etag: str
    last_modified: _timestamp_pb2.Timestamp
    size: int
    def __init__(self, etag: _Optional[str] = ..., last_modified: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping[str, object]]] = ..., size: _Optional[int] = ...) -> None: ...

class RefreshConfigResponse(_message.Message):
    __slots__ = ("updated", "prev_etag", "etag")
    UPDATED_FIELD_NUMBER: _ClassVar[int]
    PREV_ETAG_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    updated: bool
    prev_etag: str
    etag: str
    def __init__(self, updated: _Optional[bool] = ..., prev_etag: _Optional[str] = ..., etag: _Optional[str] = ...) -> None: ...

class GroupConfig(_message.Message):
    __slots__ = ("template", "size", "instance_type", "subnet_pool", "vars", "args")
    class VarsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class ArgsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    TEMPLATE_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_TYPE_FIELD_NUMBER: _ClassVar[int]
    SUBNET_POOL_FIELD_NUMBER: _ClassVar[int]
    VARS_FIELD_NUMBER: _ClassVar[int]
    ARGS_FIELD_NUMBER: _ClassVar[int]
    template: str
    size: int
    instance_type: str
    subnet_pool: str
    vars: _containers.ScalarMap[str, str]
    args: _containers.ScalarMap[str, str]
    def __init__(self, template: _Optional[str] = ..., size: _Optional[int] = ..., instance_type: _Optional[str] = ..., subnet_pool: _Optional[str] = ..., vars: _Optional[_Mapping[str, str]] = ..., args: _Optional[_Mapping[str, str]] = ...) -> None: ...

class GroupStatus(_message.Message):
    __slots__ = ("key", "tenant", "template", "size", "instance_type", "subnet_pool", "vars", "is_static", "etag", "actual_size", "provider_ids")
    class VarsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    KEY_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    TEMPLATE_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_TYPE_FIELD_NUMBER: _ClassVar[int]
    SUBNET_POOL_FIELD_NUMBER: _ClassVar[int]
    VARS_FIELD_NUMBER: _ClassVar[int]
    IS_STATIC_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    ACTUAL_SIZE_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_IDS_FIELD_NUMBER: _ClassVar[int]
    key: str
    tenant: str
    template: str
    size: int
    instance_type: str
    subnet_pool: str
    vars: _containers.ScalarMap[str, str]
    is_static: bool
    etag: str
    actual_size: int
    provider_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, key: _Optional[str] = ..., tenant: _Optional[str] = ..., template: _Optional[str] = ..., size: _Optional[int] = ..., instance_type: _Optional[str] = ..., subnet_pool: _Optional[str] = ..., vars: _Optional[_Mapping[str, str]] = ..., is_static: _Optional[bool] = ..., etag: _Optional[str] = ..., actual_size: _Optional[int] = ..., provider_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class ListGroupsResponse(_message.Message):
    __slots__ = ("groups",)
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedCompositeFieldContainer[GroupStatus]
    def __init__(self, groups: _Optional[_Iterable[_Union[GroupStatus, _Mapping[str, object]]]] = ...) -> None: ...

class UpsertGroupRequest(_message.Message):
    __slots__ = ("key", "config")
    KEY_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    key: str
    config: GroupConfig
    def __init__(self, key: _Optional[str] = ..., config: _Optional[_Union[GroupConfig, _Mapping[str, object]]] = ...) -> None: ...

class DeleteGroupRequest(_message.Message):
    __slots__ = ("key",)
    KEY_FIELD_NUMBER: _ClassVar[int]
    key: str
    def __init__(self, key: _Optional[str] = ...) -> None: ...

class InstanceConfig(_message.Message):
    __slots__ = ("group", "template", "instance_type", "subnet_pool", "vars")
    class VarsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TEMPLATE_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_TYPE_FIELD_NUMBER: _ClassVar[int]
    SUBNET_POOL_FIELD_NUMBER: _ClassVar[int]
    VARS_FIELD_NUMBER: _ClassVar[int]
    group: str
    template: str
    instance_type: str
    subnet_pool: str
    vars: _containers.ScalarMap[str, str]
    def __init__(self, group: _Optional[str] = ..., template: _Optional[str] = ..., instance_type: _Optional[str] = ..., subnet_pool: _Optional[str] = ..., vars: _Optional[_Mapping[str, str]] = ...) -> None: ...

class CreateInstanceRequest(_message.Message):
    __slots__ = ("instance_id", "config")
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    instance_id: str
    config: InstanceConfig
    def __init__(self, instance_id: _Optional[str] = ..., config: _Optional[_Union[InstanceConfig, _Mapping[str, object]]] = ...) -> None: ...

class CreateInstanceResponse(_message.Message):
    __slots__ = ("instance_id", "status")
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    instance_id: str
    status: str
    def __init__(self, instance_id: _Optional[str] = ..., status: _Optional[str] = ...) -> None: ...

class DeleteInstanceRequest(_message.Message):
    __slots__ = ("instance_id",)
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    instance_id: str
    def __init__(self, instance_id: _Optional[str] = ...) -> None: ...

class DeleteInstanceResponse(_message.Message):
    __slots__ = ("status",)
    STATUS_FIELD_NUMBER: _ClassVar[int]
    status: str
    def __init__(self, status: _Optional[str] = ...) -> None: ...

class GetInstanceStatusRequest(_message.Message):
    __slots__ = ("instance_id",)
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    instance_id: str
    def __init__(self, instance_id: _Optional[str] = ...) -> None: ...

class InstanceStatusResponse(_message.Message):
    __slots__ = ("instance_id", "tenant", "status", "created_at", "last_seen", "provider_instance_id")
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    LAST_SEEN_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    instance_id: str
    tenant: str
    status: str
    created_at: _timestamp_pb2.Timestamp
    last_seen: _timestamp_pb2.Timestamp
    provider_instance_id: str
    def __init__(self, instance_id: _Optional[str] = ..., tenant: _Optional[str] = ..., status: _Optional[str] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping[str, object]]] = ..., last_seen: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping[str, object]]] = ..., provider_instance_id: _Optional[str] = ...) -> None: ...

class DrainAckRequest(_message.Message):
    __slots__ = ("instance_id",)
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    instance_id: str
    def __init__(self, instance_id: _Optional[str] = ...) -> None: ...

class GroupEvent(_message.Message):
    __slots__ = ("type", "group")
    class Type(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        TYPE_UNSPECIFIED: _ClassVar[GroupEvent.Type]
        TYPE_UPSERT: _ClassVar[GroupEvent.Type]
        TYPE_DELETE: _ClassVar[GroupEvent.Type]
    TYPE_UNSPECIFIED: GroupEvent.Type
    TYPE_UPSERT: GroupEvent.Type
    TYPE_DELETE: GroupEvent.Type
    TYPE_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    type: GroupEvent.Type
    group: GroupStatus
    def __init__(self, type: _Optional[_Union[GroupEvent.Type, str]] = ..., group: _Optional[_Union[GroupStatus, _Mapping[str, object]]] = ...) -> None: ...

class InstanceEvent(_message.Message):
    __slots__ = ("instance_id", "tenant", "provider_instance_id", "group", "status", "reason", "unhealthy_at", "delete_at")
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    UNHEALTHY_AT_FIELD_NUMBER: _ClassVar[int]
    DELETE_AT_FIELD_NUMBER: _ClassVar[int]
    instance_id: str
    tenant: str
    provider_instance_id: str
    group: str
    status: str
    reason: str
    unhealthy_at: _timestamp_pb2.Timestamp
    delete_at: _timestamp_pb2.Timestamp
    def __init__(self, instance_id: _Optional[str] = ..., tenant: _Optional[str] = ..., provider_instance_id: _Optional[str] = ..., group: _Optional[str] = ..., status: _Optional[str] = ..., reason: _Optional[str] = ..., unhealthy_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping[str, object]]] = ..., delete_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping[str, object]]] = ...) -> None: ...

class ErrorEvent(_message.Message):
    __slots__ = ("group", "instance_id", "error", "timestamp")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    group: str
    instance_id: str
    error: str
    timestamp: _timestamp_pb2.Timestamp
    def __init__(self, group: _Optional[str] = ..., instance_id: _Optional[str] = ..., error: _Optional[str] = ..., timestamp: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping[str, object]]] = ...) -> None: ...
