"""A partition of a job, as far as those who ask see it; rows are found by brute force."""

import contextlib
import json
import socket
import struct
import threading

import numpy as np

COLLECTION = {"dimension": 64, "metric": "l2", "seed": 7, "attributes": {"color": "keyword"}}


class Partition:
    """Answers from a thread, with all rows, whatever a filter says."""

    def __init__(self, ids, rows, key=b""):
        self.ids, self.rows, self.key = ids, rows, key
        self.payload = [f'{{"row": {one}}}'.encode() for one in ids]
        self.status, self.message, self.is_partial = 0, "", False
        self.flags = 4
        self.questions = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._talk, args=(connection,), daemon=True).start()

    def _talk(self, connection):
        # Who asks may end the connection before it has read a reply.
        with contextlib.suppress(ConnectionError), connection, connection.makefile("rb") as asked:
            assert asked.read(8) == b"VSREAD01"
            (length,) = struct.unpack(">H", asked.read(2))
            is_known = asked.read(length) == self.key
            connection.sendall(bytes([is_known]))
            while is_known and (head := asked.read(4)):
                question = asked.read(struct.unpack(">i", head)[0])
                self.questions.append(question)
                reply = self._reply(question)
                connection.sendall(struct.pack(">i", len(reply)) + reply)

    def _reply(self, question):
        message = self.message.encode()
        out = struct.pack(">BH", self.status, len(message)) + message + struct.pack(">qq", 0, 0)
        found = [] if self.status else self._nearest(question)
        carries = bool(found)
        out += struct.pack(">I", len(found) | (carries << 31))
        for distance, at in found:
            out += struct.pack(">qqf", self.ids[at], 1, distance)
        for _, at in found:
            payload = self.payload[at] if self.flags == 4 else b""
            out += bytes([self.flags])
            out += struct.pack(">i", len(payload)) + payload if self.flags == 4 else b""
        # Watermark, offsets.
        out += struct.pack(">qi", 90, 2) + struct.pack(">qq", 5, 6)
        return out + bytes([self.is_partial])

    def _nearest(self, question):
        (offsets,) = struct.unpack_from(">i", question, 12)
        k, _, elements = struct.unpack_from(">iii", question, 16 + 8 * offsets)
        vector = np.frombuffer(question, ">f4", elements, 28 + 8 * offsets)
        distances = ((self.rows - vector) ** 2).sum(axis=1)
        order = np.lexsort((self.ids, distances))[:k]
        return [(float(distances[at]), int(at)) for at in order]


def publish(checkpoints, partitions):
    """Write where the partitions answer, as a job does beside its checkpoints."""
    folder = checkpoints / "vstream-reads"
    folder.mkdir()
    collection = json.dumps(COLLECTION).encode()
    out = struct.pack(">qi", 17, len(collection)) + collection + struct.pack(">H", len(partitions))
    for partition in partitions:
        out += struct.pack(">H", 9) + b"127.0.0.1" + struct.pack(">H", partition.port)
    (folder / "PARTITIONS").write_bytes(_published(out))
    # Before the first template: all partitions are asked.
    templates = struct.pack(">qqBii", 0, 0, 0, 0, 0)
    (folder / "TEMPLATES").write_bytes(_published(templates))


def _published(content):
    out = b"VSPUBLIC" + struct.pack(">i", len(content)) + content
    return out + struct.pack(">q", _crc32c(out))


def _crc32c(content):
    value = 0xFFFFFFFF
    for byte in content:
        value ^= byte
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
    return value ^ 0xFFFFFFFF
