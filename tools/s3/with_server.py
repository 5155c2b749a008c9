"""Runs a command beside a server that speaks S3, on a loopback port of its own.

    with_server.py [--server moto|versitygw] [--program PATH] -- COMMAND...

The command finds the server through the environment: AWS_ENDPOINT_URL and credentials that only
this server knows, and VSTREAM_TEST_S3, the address of an empty bucket. The exit code is the
command's. moto keeps everything in memory; versitygw in a folder that is removed afterwards.
"""

import argparse
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

BUCKET = "vstream-test"
START_SECONDS = 60


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def server_command(kind: str, program: str, port: int, folder: str) -> list[str]:
    if kind == "moto":
        return [program, "-H", "127.0.0.1", "-p", str(port)]
    os.mkdir(os.path.join(folder, BUCKET))
    keys = ["--access", "vstream", "--secret", "vstream-secret"]
    return [program, *keys, "--port", f"127.0.0.1:{port}", "posix", folder]


def wait_until_it_answers(server: subprocess.Popen, port: int) -> None:
    for _ in range(START_SECONDS * 10):
        if server.poll() is not None:
            sys.exit(f"the server ended with {server.returncode} before it answered")
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1):
                return
        except OSError:
            time.sleep(0.1)
    sys.exit(f"the server did not answer within {START_SECONDS} s")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--server", choices=["moto", "versitygw"], default="moto")
    parser.add_argument("--program", help="path of the server's program")
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    default = {"moto": "moto_server", "versitygw": "versitygw"}[arguments.server]
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        command = server_command(
            arguments.server, arguments.program or default, port, folder
        )
        server = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            wait_until_it_answers(server, port)
            endpoint = f"http://127.0.0.1:{port}"
            if arguments.server == "moto":
                bucket = urllib.request.Request(f"{endpoint}/{BUCKET}", method="PUT")
                urllib.request.urlopen(bucket, timeout=30).close()
            environment = os.environ | {
                "AWS_ENDPOINT_URL": endpoint,
                "AWS_ACCESS_KEY_ID": "vstream",
                "AWS_SECRET_ACCESS_KEY": "vstream-secret",
                "AWS_REGION": "us-east-1",
                "NO_PROXY": "127.0.0.1",
                "VSTREAM_TEST_S3": f"s3://{BUCKET}",
            }
            return subprocess.run(
                arguments.command, env=environment, check=False
            ).returncode
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    sys.exit(main())
