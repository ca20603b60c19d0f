"""The messages and services of an Nstance server: numbers, types and bytes."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from google.protobuf.descriptor import FieldDescriptor, MethodDescriptor
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message import Message
from grpclib.const import Handler

from konverge.reconcilers.machines.wire import operator_grpc, operator_pb2, registration_grpc, registration_pb2

VECTORS: list[dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("wire_vectors.yaml").read_text())
FILES = (operator_pb2.DESCRIPTOR, registration_pb2.DESCRIPTOR)

MESSAGES = """
RegisterClientRequest: registration_nonce_jwt str 1, public_key_pem bytes 2, private_ipv4 str 3, private_ipv6 str 4, hostname str 5
RegisterClientResponse: client_certificate_pem bytes 1, expires_at Timestamp 2
RenewCertificateRequest: public_key_pem bytes 1
RenewCertificateResponse: client_certificate_pem bytes 1, expires_at Timestamp 2
ConfigStatusResponse: etag str 1, last_modified Timestamp 2, size int64 3
RefreshConfigResponse: updated bool 1, prev_etag str 2, etag str 3
ListGroupsResponse: groups [GroupStatus] 1
UpsertGroupRequest: key str 1, config GroupConfig 2
DeleteGroupRequest: key str 1
CreateInstanceRequest: instance_id str 1, config InstanceConfig 2
CreateInstanceResponse: instance_id str 1, status str 2
DeleteInstanceRequest: instance_id str 1
DeleteInstanceResponse: status str 1
GetInstanceStatusRequest: instance_id str 1
DrainAckRequest: instance_id str 1
GroupConfig: template str 1, size int32 2, instance_type str 3, subnet_pool str 4, vars map 5, args map 6
GroupStatus: key str 1, tenant str 2, template str 3, size int32 4, instance_type str 5, subnet_pool str 6, vars map 7, is_static bool 8, \
etag str 9, actual_size int32 10, provider_ids [str] 11
InstanceConfig: group str 1, template str 2, instance_type str 3, subnet_pool str 4, vars map 5
InstanceStatusResponse: instance_id str 1, tenant str 2, status str 3, created_at Timestamp 4, last_seen Timestamp 5, provider_instance_id str 6
GroupEvent: type Type 1, group GroupStatus 2
InstanceEvent: instance_id str 1, tenant str 2, provider_instance_id str 3, group str 4, status str 5, reason str 6, unhealthy_at Timestamp 7, \
delete_at Timestamp 8
ErrorEvent: group str 1, instance_id str 2, error str 3, timestamp Timestamp 4
"""
"""The fields of a server's messages, transcribed apart from the .proto files: name, type, number."""

METHODS = """
RegistrationService/RegisterAgent RegisterClientRequest RegisterClientResponse
RegistrationService/RegisterOperator RegisterClientRequest RegisterClientResponse
OperatorService/RenewCertificate RenewCertificateRequest RenewCertificateResponse
OperatorService/GetConfigStatus Empty ConfigStatusResponse
OperatorService/RefreshConfig Empty RefreshConfigResponse
OperatorService/ListGroups Empty ListGroupsResponse
OperatorService/UpsertGroup UpsertGroupRequest GroupStatus
OperatorService/DeleteGroup DeleteGroupRequest Empty
OperatorService/CreateInstance CreateInstanceRequest CreateInstanceResponse
OperatorService/DeleteInstance DeleteInstanceRequest DeleteInstanceResponse
OperatorService/GetInstanceStatus GetInstanceStatusRequest InstanceStatusResponse
OperatorService/AcknowledgeDrained DrainAckRequest Empty
OperatorService/WatchGroups Empty GroupEvent stream
OperatorService/WatchInstances Empty InstanceEvent stream
OperatorService/WatchErrors Empty ErrorEvent stream
"""

_TYPES = {
    FieldDescriptor.TYPE_STRING: "str",
    FieldDescriptor.TYPE_BYTES: "bytes",
    FieldDescriptor.TYPE_INT32: "int32",
    FieldDescriptor.TYPE_INT64: "int64",
    FieldDescriptor.TYPE_BOOL: "bool",
}


def shown_type(field: FieldDescriptor) -> str:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        return "map"
    if field.enum_type is not None:
        return field.enum_type.name
    name = field.message_type.name if field.message_type is not None else _TYPES[field.type]
    return f"[{name}]" if field.is_repeated else name


def shown_method(method: MethodDescriptor) -> str:
    words = [f"{method.containing_service.name}/{method.name}", method.input_type.name, method.output_type.name]
    assert not method.client_streaming
    return " ".join([*words, "stream"] if method.server_streaming else words)


def test_every_message_has_the_fields_and_numbers_of_the_server() -> None:
    found = {
        f"{name}: " + ", ".join(f"{field.name} {shown_type(field)} {field.number}" for field in message.fields)
        for file in FILES
        for name, message in file.message_types_by_name.items()
    }
    assert found == set(MESSAGES.strip().splitlines())


def test_every_method_has_the_path_and_types_of_the_server() -> None:
    services = [service for file in FILES for service in file.services_by_name.values()]
    found = {shown_method(method) for service in services for method in service.methods}
    assert found == set(METHODS.strip().splitlines())
    assert {file.package for file in FILES} == {"nstance.v1"}


def test_the_bases_of_services_listen_on_the_full_names() -> None:
    bases = (operator_grpc.OperatorServiceBase, registration_grpc.RegistrationServiceBase)
    listening: dict[str, Handler] = {}
    for base in bases:
        whole = type("Whole", (base,), dict.fromkeys(base.__abstractmethods__))
        listening |= whole().__mapping__()
    assert set(listening) == {f"/nstance.v1.{line.split()[0]}" for line in METHODS.strip().splitlines()}


def message_of(vector: dict[str, Any]) -> Message:
    modules = (operator_pb2, registration_pb2)
    made = next(getattr(module, vector["message"]) for module in modules if hasattr(module, vector["message"]))
    message: Message = made()
    return message


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["case"])
def test_a_message_is_written_and_read_as_these_bytes(vector: dict[str, Any]) -> None:
    written = ParseDict(vector["fields"], message_of(vector)).SerializeToString(deterministic=True)
    assert written.hex() == vector["hex"]
    read = message_of(vector)
    read.ParseFromString(bytes.fromhex(vector["hex"]))
    assert MessageToDict(read, preserving_proto_field_name=True, use_integers_for_enums=True) == vector["fields"]


def test_every_message_has_a_vector() -> None:
    names = {name for file in FILES for name in file.message_types_by_name}
    assert {vector["message"] for vector in VECTORS} == names


def test_an_unknown_number_of_an_event_survives_reading() -> None:
    """proto3 enums are open: a third number must reach the code that reads the content."""
    read = operator_pb2.GroupEvent.FromString(bytes.fromhex("0807"))
    assert int(read.type) == 7
    assert read.SerializeToString().hex() == "0807"
