from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Node(_message.Message):
    __slots__ = ("role", "id", "hostname", "port", "is_recovery", "customer_id")
    ROLE_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    HOSTNAME_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    IS_RECOVERY_FIELD_NUMBER: _ClassVar[int]
    CUSTOMER_ID_FIELD_NUMBER: _ClassVar[int]
    role: int
    id: int
    hostname: str
    port: int
    is_recovery: bool
    customer_id: int
    def __init__(self, role: _Optional[int] = ..., id: _Optional[int] = ..., hostname: _Optional[str] = ..., port: _Optional[int] = ..., is_recovery: bool = ..., customer_id: _Optional[int] = ...) -> None: ...

class Control(_message.Message):
    __slots__ = ("cmd", "node", "barrier_group", "msg_sig")
    CMD_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    BARRIER_GROUP_FIELD_NUMBER: _ClassVar[int]
    MSG_SIG_FIELD_NUMBER: _ClassVar[int]
    cmd: int
    node: _containers.RepeatedCompositeFieldContainer[Node]
    barrier_group: int
    msg_sig: int
    def __init__(self, cmd: _Optional[int] = ..., node: _Optional[_Iterable[_Union[Node, _Mapping]]] = ..., barrier_group: _Optional[int] = ..., msg_sig: _Optional[int] = ...) -> None: ...

class Meta(_message.Message):
    __slots__ = ("head", "body", "control", "request", "push", "simple_app", "app_id", "timestamp", "data_type", "customer_id", "data_size", "pull", "priority")
    HEAD_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    CONTROL_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    PUSH_FIELD_NUMBER: _ClassVar[int]
    SIMPLE_APP_FIELD_NUMBER: _ClassVar[int]
    APP_ID_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    DATA_TYPE_FIELD_NUMBER: _ClassVar[int]
    CUSTOMER_ID_FIELD_NUMBER: _ClassVar[int]
    DATA_SIZE_FIELD_NUMBER: _ClassVar[int]
    PULL_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    head: int
    body: bytes
    control: Control
    request: bool
    push: bool
    simple_app: bool
    app_id: int
    timestamp: int
    data_type: _containers.RepeatedScalarFieldContainer[int]
    customer_id: int
    data_size: int
    pull: bool
    priority: int
    def __init__(self, head: _Optional[int] = ..., body: _Optional[bytes] = ..., control: _Optional[_Union[Control, _Mapping]] = ..., request: bool = ..., push: bool = ..., simple_app: bool = ..., app_id: _Optional[int] = ..., timestamp: _Optional[int] = ..., data_type: _Optional[_Iterable[int]] = ..., customer_id: _Optional[int] = ..., data_size: _Optional[int] = ..., pull: bool = ..., priority: _Optional[int] = ...) -> None: ...
