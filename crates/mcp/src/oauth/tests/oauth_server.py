"""A server of the Model Context Protocol over HTTP with a login by OAuth, for tests.

Usage: oauth_server.py BEHAVIOUR...

The first line of the output is the URL of the server, which ends with its standard input.
"""

import base64
import hashlib
import json
import os
import secrets
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlencode, urlsplit

behaviours = " ".join(sys.argv[1:]).split()
lock = threading.Condition()
counts = {}
# The path and the token of each request to the server itself.
received = []
codes = {}
access, refresh = set(), set()
# With "hidden", only the challenge names the metadata, and only to requests with a header.
HIDDEN_PATHS = (
    "/.well-known/oauth-protected-resource/mcp",
    "/.well-known/oauth-authorization-server",
    "/.well-known/oauth-authorization-server/mcp",
)
# Number of requests that must arrive before all of them are refused together.
held = {"wanted": 0, "waiting": 0}


def count(what):
    counts[what] = counts.get(what, 0) + 1


def new_tokens():
    token, renewed = "access-" + secrets.token_hex(8), "refresh-" + secrets.token_hex(8)
    access.add(token)
    refresh.add(renewed)
    return {
        "access_token": token,
        "token_type": "Bearer",
        "expires_in": 3600,
        "refresh_token": renewed,
        "id_token": "identity-" + secrets.token_hex(8),
    }


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    @property
    def base(self):
        return f"http://127.0.0.1:{self.server.server_port}"

    @property
    def issuer(self):
        if "hidden" in behaviours:
            return self.base + "/hidden"
        return self.base + "/renamed" if "renamed" in behaviours else self.base

    def answer(self, status, body=None, headers=()):
        data = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        if body is not None:
            self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def body(self):
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def do_GET(self):
        url = urlsplit(self.path)
        with lock:
            if url.path.startswith("/.well-known/"):
                count("metadata")
        if url.path == "/counts":
            with lock:
                self.answer(200, {"counts": counts, "received": received})
        elif "silent" in behaviours and url.path.startswith("/.well-known/"):
            self.answer(404)
        elif "hidden" in behaviours and url.path in HIDDEN_PATHS:
            self.answer(404)
        elif url.path in ("/.well-known/oauth-protected-resource/mcp", "/hidden-metadata"):
            named = "http://10.1.2.3:1" if "private" in behaviours else self.issuer
            if "foreign" in behaviours:
                named = self.base + "/x/.well-known/oauth-authorization-server"
            self.answer(200, {
                "resource": self.base + "/mcp",
                "authorization_servers": [named],
                "scopes_supported": ["use"],
            })
        elif "/.well-known/oauth-authorization-server" in url.path:
            token = "http://192.0.2.1/token" if "insecure" in behaviours else self.base + "/token"
            if "foreign" in behaviours or "moved" in behaviours:
                token = self.base + "/stolen"
            metadata = {
                "issuer": self.issuer,
                "authorization_endpoint": self.base + "/authorize",
                "token_endpoint": token,
                "registration_endpoint": self.base + "/register",
                "response_types_supported": ["code"],
                "code_challenge_methods_supported": ["S256"],
                "authorization_response_iss_parameter_supported": True,
            }
            if "closed" in behaviours:
                del metadata["registration_endpoint"]
            self.answer(200, metadata)
        elif url.path == "/authorize":
            self.authorize(dict(parse_qsl(url.query)))
        elif url.path in ("/mcp", "/other"):
            self.answer(405 if self.is_authorized() else 401, None, self.challenge())
        else:
            self.answer(404)

    def authorize(self, asked):
        if "denies" in behaviours:
            answer = {"error": "access_denied", "error_description": "<b>never</b>"}
        elif "fails" in behaviours:
            answer = {"error": "server_error", "error_description": "<b>\u202enever</b>"}
        else:
            code = secrets.token_hex(8)
            codes[code] = asked
            answer = {"code": code}
        answer["state"] = asked["state"]
        answer["iss"] = "http://other.example" if "impostor" in behaviours else self.issuer
        self.answer(302, None, [("Location", asked["redirect_uri"] + "?" + urlencode(answer))])

    def do_DELETE(self):
        self.answer(405)

    def do_POST(self):
        url, body = urlsplit(self.path), self.body()
        if url.path == "/expire":
            with lock:
                access.clear()
                held.update(wanted=int(url.query or 0), waiting=0)
            self.answer(200, {})
        elif url.path == "/revoke":
            with lock:
                access.clear()
                refresh.clear()
                held.update(wanted=int(url.query or 0), waiting=0)
            self.answer(200, {})
        elif url.path in ("/break", "/repair"):
            (behaviours.append if url.path == "/break" else behaviours.remove)("broken")
            self.answer(200, {})
        elif url.path == "/behave":
            with lock:
                behaviours[:] = url.query.split("+")
                lock.notify_all()
            self.answer(200, {})
        elif url.path == "/register":
            self.register(json.loads(body))
        elif url.path in ("/token", "/stolen"):
            asked = dict(parse_qsl(body.decode()))
            with lock:
                if url.path == "/stolen" and "refresh_token" in asked:
                    count("stolen")
            self.token(asked)
        elif url.path in ("/mcp", "/other"):
            self.serve(json.loads(body))
        else:
            self.answer(404)

    def register(self, asked):
        with lock:
            count("register")
        if "refuses" in behaviours:
            self.answer(403, {"error": "access_denied"})
            return
        self.answer(201, {**asked, "client_id": "client-1"})

    def token(self, asked):
        with lock:
            count("asked for tokens")
            lock.wait_for(lambda: "slow" not in behaviours, 30)
        if "forgets" in behaviours:
            self.answer(401, {"error": "invalid_client"})
            return
        if "broken" in behaviours:
            with lock:
                count("broken")
            self.answer(503, {"error": "temporarily_unavailable"})
            return
        with lock:
            if asked["grant_type"] == "refresh_token":
                count("refresh")
                is_valid = asked["refresh_token"] in refresh
                # The second use of a refresh token ends the login.
                access.clear()
                refresh.clear()
            else:
                count("exchange")
                given = codes.pop(asked["code"], {})
                digest = hashlib.sha256(asked["code_verifier"].encode()).digest()
                challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
                is_valid = challenge == given.get("code_challenge")
                is_valid = is_valid and asked["redirect_uri"] == given["redirect_uri"]
                is_valid = is_valid and given["resource"] == self.base + "/mcp"
                is_valid = is_valid and given["scope"] == "use"
            is_valid = is_valid and asked["resource"] == self.base + "/mcp"
            tokens = new_tokens() if is_valid else None
        if tokens is None:
            self.answer(400, {"error": "invalid_grant"})
        else:
            self.answer(200, tokens)

    def challenge(self):
        metadata = f"{self.base}/.well-known/oauth-protected-resource/mcp"
        if "hidden" in behaviours:
            metadata = self.base + "/hidden-metadata"
        if "silent" in behaviours or "hidden" in behaviours and "X-Tenant" not in self.headers:
            return [("WWW-Authenticate", "Bearer")]
        return [("WWW-Authenticate", f'Bearer resource_metadata="{metadata}", scope="use"')]

    def is_authorized(self):
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        with lock:
            return "open" in behaviours or token in access

    def serve(self, message):
        with lock:
            received.append([self.path, self.headers.get("Authorization", "")])
        if not self.is_authorized():
            with lock:
                held["waiting"] += 1
                lock.notify_all()
                lock.wait_for(lambda: held["waiting"] >= held["wanted"], 30)
            self.answer(401, None, self.challenge())
            return
        method, number = message.get("method"), message.get("id")
        if number is None:
            self.answer(202)
        elif method == "initialize":
            self.answer(200, {"jsonrpc": "2.0", "id": number, "result": {
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "test", "version": "1"}}})
        elif method == "tools/list":
            tool = {"name": "echo", "inputSchema": {"type": "object"}}
            self.answer(200, {"jsonrpc": "2.0", "id": number, "result": {"tools": [tool]}})
        else:
            content = [{"type": "text", "text": "It works."}]
            self.answer(200, {"jsonrpc": "2.0", "id": number, "result": {"content": content}})


class Server(ThreadingHTTPServer):
    request_queue_size = 256
    daemon_threads = True


server = Server(("127.0.0.1", 0), Handler)
print(f"http://127.0.0.1:{server.server_port}/mcp", flush=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
# The server ends when the test ends, because the test then closes standard input.
sys.stdin.read()
os._exit(0)
