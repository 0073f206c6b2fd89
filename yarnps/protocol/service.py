"""The gRPC service `yarnps.Control`, spelled out for clients and for the ApplicationMaster.

The messages are generated from ``control.proto`` (``make protocol``); the three methods are named
here, so that no generated service code ties us to one release of grpcio.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc

from yarnps.protocol import control_pb2 as pb

SERVICE = "yarnps.Control"

# The name in the certificate that skein's format of credentials carries.
TARGET_NAME = "skein-internal"

CHANNEL_OPTIONS: list[tuple[str, Any]] = [
    ("grpc.ssl_target_name_override", TARGET_NAME),
    ("grpc.max_receive_message_length", 64 << 20),
    ("grpc.max_send_message_length", 64 << 20),
    # A proxy in a node's environment is for the world outside, never for our own containers.
    ("grpc.enable_http_proxy", 0),
]


def session_call(channel: Any) -> Any:
    """The stream of an agent: ``call(iterator of FromAgent)`` iterates over ``ToAgent``."""
    return channel.stream_stream(
        f"/{SERVICE}/Session",
        request_serializer=pb.FromAgent.SerializeToString,
        response_deserializer=pb.ToAgent.FromString,
    )


def status_call(channel: Any) -> Any:
    """``call(StatusRequest)`` returns a ``StatusReply``."""
    return channel.unary_unary(
        f"/{SERVICE}/Status",
        request_serializer=pb.StatusRequest.SerializeToString,
        response_deserializer=pb.StatusReply.FromString,
    )


def kill_call(channel: Any) -> Any:
    """``call(KillRequest)`` returns a ``KillReply``."""
    return channel.unary_unary(
        f"/{SERVICE}/Kill",
        request_serializer=pb.KillRequest.SerializeToString,
        response_deserializer=pb.KillReply.FromString,
    )


def handlers(
    *, session: Callable[..., Any], status: Callable[..., Any], kill: Callable[..., Any]
) -> Any:
    """The generic handler that a (grpc.aio) server registers for the three methods."""
    return grpc.method_handlers_generic_handler(
        SERVICE,
        {
            "Session": grpc.stream_stream_rpc_method_handler(
                session,
                request_deserializer=pb.FromAgent.FromString,
                response_serializer=pb.ToAgent.SerializeToString,
            ),
            "Status": grpc.unary_unary_rpc_method_handler(
                status,
                request_deserializer=pb.StatusRequest.FromString,
                response_serializer=pb.StatusReply.SerializeToString,
            ),
            "Kill": grpc.unary_unary_rpc_method_handler(
                kill,
                request_deserializer=pb.KillRequest.FromString,
                response_serializer=pb.KillReply.SerializeToString,
            ),
        },
    )
