#!/usr/bin/python3
"""An independent peer of the console: Debian's python3-bson and the standard library, nothing of this project.

Usage: console_peer.py DIRECTORY COMMAND [ARGUMENT...]

Starts the server, runs a session that writes in DIRECTORY and checks every answer, types included. Prints one line a step; exits with
status 1 at the first answer that is not what the contract says.
"""
import struct
import subprocess
import sys

import bson
from bson.int64 import Int64



class Peer:
    def __init__(self, command):
        self.server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.next_id = 0

    def send(self, document):
        payload = bson.encode(document)
        self.server.stdin.write(struct.pack(">I", len(payload)) + payload)
        self.server.stdin.flush()

    def exactly(self, count):
        data = self.server.stdout.read(count)
        if len(data) != count:
            raise SystemExit(f"the server ended after {len(data)} of {count} bytes")
        return data

    def receive(self):
        (length,) = struct.unpack(">I", self.exactly(4))
        payload = self.exactly(length)
        # The validating decoder: lengths, types and UTF-8 of the whole document.
        if not bson.is_valid(payload):
            raise SystemExit("an answer is not valid BSON")
        return bson.decode(payload)

    def call(self, method, **params):
        number = self.next_id
        self.next_id += 1
        self.send({"jsonrpc": "2.0", "id": Int64(number), "method": method, "params": params})
        answer = self.receive()
        check(answer["jsonrpc"] == "2.0", answer)
        check(answer["id"] == number and isinstance(answer["id"], Int64), answer)
        if "error" in answer:
            check("method" not in answer and "result" not in answer, answer)
            check(isinstance(answer["error"]["code"], Int64) and isinstance(answer["error"]["message"], str), answer)
            return answer["error"]
        check(answer["method"] == method, answer)
        return answer["result"]

    def notify(self, method):
        self.send({"jsonrpc": "2.0", "method": method})


def check(holds, what):
    if not holds:
        raise SystemExit(f"not what the contract says: {what!r}")


def session(peer, directory):
    result = peer.call("init")
    check(isinstance(result.get("cwd"), str), result)
    print("init")

    result = peer.call("exec", cmd=["sh", "-c", "printf 'out\\377'; printf err >&2; exit 5"], timeout_ms=Int64(60000))
    check(result == {"code": 5, "stdout": b"out\xff", "stderr": b"err", "truncated": False}, result)
    check(list(result) == ["code", "stdout", "stderr", "truncated"], list(result))
    check(not isinstance(result["code"], Int64), "code is an Int64")
    check(peer.call("exec", cmd=["sleep", "30"], timeout_ms=Int64(200))["code"] == -32000, "timeout")
    check(peer.call("exec", cmd=["no-such-program"])["code"] == -32001, "not executable")
    check(peer.call("exec", cmd=[])["code"] == -32602, "an empty command")
    result = peer.call("exec", cmd=["sh", "-c", "head -c 70000000 /dev/zero"])
    check(result["truncated"] and result["stdout"] == bytes(33553920), "a flood")
    print("exec")

    path = directory + "/peer"
    data = bytes(range(256)) * 131072
    result = peer.call("write", path=path, data=data)
    check(result == {"size": len(data)} and isinstance(result["size"], Int64), result)
    check(peer.call("write", path=path, data=b"XY", offset=Int64(1))["size"] == len(data), "a positioned write")
    check(peer.call("write", path=directory + "/missing/x", data=b"")["code"] == -32005, "a missing directory")
    check(peer.call("write", path=directory, data=b"")["code"] == -32006, "a directory")
    print("write")

    result = peer.call("read", path=path)
    check(result["size"] == len(data) and result["data"] == b"\x00XY" + data[3:], "a whole read")
    result = peer.call("read", path=path, offset=Int64(254), len=Int64(4))
    check(result == {"data": b"\xfe\xff\x00\x01", "size": len(data)}, result)
    print("read")

    check(peer.call("frobnicate")["code"] == -32601, "an unknown method")
    peer.notify("stop")
    peer.notify("start")
    result = peer.call("snapshot")
    if "code" in result:
        check(result["code"] == -32011, result)
        print("snapshot: refused, as there is no base image")
    else:
        check(isinstance(result["blob"], bytes) and len(result["blob"]) % 512 == 0, "a snapshot that is no tar")
        check(peer.call("snapshot")["blob"] == result["blob"], "another snapshot without a change")
        check(("peer" in result["blob"].decode("latin-1")), "a snapshot without the session's file")
        check(peer.call("init", snapshot=result["blob"]) == {"cwd": "/"}, "init with a snapshot")
        check(peer.call("read", path=path, len=Int64(3))["data"] == b"\x00XY", "what the snapshot carried")
        print("snapshot")

    peer.notify("quit")
    check(peer.server.stdout.read() == b"", "an answer to quit")
    check(peer.server.wait() == 0, peer.server.returncode)
    print("quit")


session(Peer(sys.argv[2:]), sys.argv[1])
