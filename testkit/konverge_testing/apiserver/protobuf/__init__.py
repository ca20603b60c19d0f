"""Request bodies in Kubernetes' protobuf form: see `decode`."""

from konverge_testing.apiserver.protobuf.decode import MEDIA_TYPE, as_json, decode

__all__ = ["MEDIA_TYPE", "as_json", "decode"]
