"""The way into a cluster's network: a port on this machine's loopback whose connections go on inside.

`start` opens the port here and runs this file as a program inside; a socket stays in the network where it was made.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.cluster.rig.machine import Machine

SIZE = 65536


def start(machine: Machine, address: str, port: int) -> int:
    """Lead 127.0.0.1:PORT to address:port in the machine's network, as long as the machine lives; returns PORT."""
    with socket.create_server(("127.0.0.1", 0)) as listener, (machine.folder / "log" / "relay.log").open("ab") as log:
        command = [sys.executable, "-SE", os.path.abspath(__file__), str(listener.fileno()), address, str(port)]
        machine.spawn(command, log=log, env=os.environ, pass_fds=[listener.fileno()])
        return int(listener.getsockname()[1])


async def _serve(descriptor: int, address: str, port: int) -> None:
    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(SIZE):
                writer.write(data)
                await writer.drain()
            writer.write_eof()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer):
            try:
                inner_reader, inner_writer = await asyncio.open_connection(address, port)
            except OSError:
                return
            with contextlib.closing(inner_writer):
                await asyncio.gather(carry(reader, inner_writer), carry(inner_reader, writer))

    server = await asyncio.start_server(connected, sock=socket.socket(fileno=descriptor))
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
