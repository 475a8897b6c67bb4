"""A single-user server that starts in a tenth of the real one's time and does what a test asks of it.

It never asks who is calling: nothing but tests may ever reach it.  The user's name says how it behaves:
`dies…` ends at once, `mute…` listens but never answers, `slow…` takes its time, all others are well.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

from jupyterhub._version import __version__

running: list[subprocess.Popen[str]] = []


class Server(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.answer(dict(os.environ) if self.path.endswith("/env") else {"version": __version__})

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path.endswith("/run"):
            # an environment of its own choice, as a tenant can have it
            env = asked["env"] if asked["env"] is not None else dict(os.environ)
            done = subprocess.run(
                [sys.executable, "-c", asked["code"]], env=env, capture_output=True, text=True, timeout=60
            )
            self.answer({"rc": done.returncode, "out": done.stdout, "err": done.stderr})
        elif self.path.endswith("/begin"):
            # a kernel: it has a session of its own and outlives the server
            kernel = subprocess.Popen(
                [sys.executable, "-c", asked["code"]], stdout=subprocess.PIPE, text=True, start_new_session=True
            )
            running.append(kernel)
            assert kernel.stdout is not None
            self.answer({"pid": kernel.pid, "said": kernel.stdout.readline()})
        elif self.path.endswith("/die"):
            os.kill(os.getpid(), signal.SIGKILL)

    def answer(self, content: object) -> None:
        body = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("X-JupyterHub-Version", __version__)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


def stop(*args: object) -> None:
    if os.environ["JUPYTERHUB_USER"].startswith("slow"):
        time.sleep(1.5)  # longer than the hub waits when it cancels a start
    for process in running:
        process.terminate()
    sys.exit(0)


def main() -> None:
    user = os.environ["JUPYTERHUB_USER"]
    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    try:
        (Path(os.environ["HOME"]) / ".was-here").touch()
    except OSError:
        sys.exit(1)
    if user.startswith("dies"):
        sys.exit(3)
    url = urlsplit(os.environ["JUPYTERHUB_SERVICE_URL"])
    address = (url.hostname or "127.0.0.1", url.port or 0)
    if user.startswith("mute"):
        listening = socket.create_server(address)
        signal.pause()
        listening.close()
    if user.startswith("slow"):
        time.sleep(600)
    ThreadingHTTPServer(address, Server).serve_forever()


main()
