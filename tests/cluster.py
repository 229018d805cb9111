"""Several workers on the loopback."""

import json
import socket


def free_ports(count: int) -> list[int]:
    """Returns ports of the loopback that nobody listens on."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def cluster(worker: int, ports: list[int]) -> str:
    """Returns TF_CONFIG for one of the workers."""
    workers = [f"127.0.0.1:{port}" for port in ports]
    task = {"type": "worker", "index": worker}
    return json.dumps({"cluster": {"worker": workers}, "task": task})
