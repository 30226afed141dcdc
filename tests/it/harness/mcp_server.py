"""A server of the Model Context Protocol over standard streams, for tests.

Usage: mcp_server.py LOG BEHAVIOUR...
"""

import json
import os
import socket
import sys
import time

log, behaviours = sys.argv[1], sys.argv[2:]


def record(text):
    with open(log, "a") as file:
        file.write(text + "\n")


def send(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def tools():
    changed = os.path.exists(log + ".changed")
    text = "Echoes loudly." if changed else "Echoes."
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    listed = [{"name": "echo", "description": text, "inputSchema": schema}]
    for name, hints in [
        ("look", {"readOnlyHint": True}),
        ("wipe", {"readOnlyHint": False, "destructiveHint": True}),
        ("wait", {}),
        ("change", {}),
        ("fail", {}),
    ]:
        listed.append({"name": name, "inputSchema": {"type": "object"}, "annotations": hints})
    if "asks" in behaviours:
        point = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
        for name in ["hasty", "later", "leave", "busy", "ask", "sample", "point"]:
            listed.append({"name": name, "inputSchema": {"type": "object"}})
        listed[-1]["outputSchema"] = point
    if "many" in behaviours:
        text = "Does something. " * 20
        for at in range(300):
            listed.append({"name": f"tool_{at}", "description": text,
                           "inputSchema": {"type": "object"}})
    if changed:
        listed.append({"name": "late", "inputSchema": {"type": "object"}})
    if "probes" in behaviours:
        listed.append({"name": "probe", "inputSchema": {"type": "object"}})
    return listed


def probe(arguments):
    """Tries something, and returns how it ended."""
    try:
        if "read" in arguments:
            with open(arguments["read"]) as file:
                return "read " + file.read()
        if "write" in arguments:
            os.makedirs(os.path.dirname(arguments["write"]), exist_ok=True)
            with open(arguments["write"], "w") as file:
                file.write("made")
            return "written"
        socket.create_connection(("127.0.0.1", arguments["connect"])).close()
        return "connected"
    except OSError as error:
        return f"refused: {error}"


def call(number, name, arguments, token):
    if name == "wait":
        for step in range(1, 4):
            send({"method": "notifications/progress", "params": {
                "progressToken": token, "progress": step, "total": 3, "message": f"step {step}"}})
        record(f"waits in {number}")
        return
    if name == "change":
        open(log + ".changed", "w").close()
        send({"method": "notifications/tools/list_changed"})
    if name == "fail":
        content = [{"type": "text", "text": "It does not work."}]
        send({"id": number, "result": {"content": content, "isError": True}})
        return
    if name in ["ask", "sample"]:
        method = {"ask": "elicitation/create", "sample": "sampling/createMessage"}[name]
        count, chain = arguments.pop("count", 1), arguments.pop("chain", 1)
        request = {"method": method, "params": arguments}
        # After each answer, the next question of the chain follows.
        chains[number] = [{"id": f"{number}/chain/{at}", **request} for at in range(chain - 1)]
        for at in range(count):
            ask(number, {"id": f"{number}/{at}", **request})
        return
    if name == "hasty":
        send({"id": "unanswered", "method": "elicitation/create", "params": arguments})
        wait_for_file()
    if name == "later":
        waiting.append(number)
        if is_over:
            send({"id": number, "result": {"content": []}})
        return
    if name == "busy":
        send({"method": "notifications/tools/list_changed"})
        # A request for the list of tools fails after a second, i.e. while the server sleeps.
        time.sleep(3)
    if "page" in arguments:
        error = {"code": -32042, "message": "Log in.", "data": {"elicitations": [
            {"mode": "url", "message": "Log in.", "url": arguments["page"], "elicitationId": "e2"}]}}
        send({"id": number, "error": error})
        return
    if name == "point":
        structured = {"structuredContent": arguments} if arguments else {}
        send({"id": number, "result": {"content": [], **structured}})
        return
    record(f"{name} {json.dumps(arguments)}")
    shown = probe(arguments) if name == "probe" else arguments.get("text", "")
    text = f"{name}: {shown}" + "x" * arguments.get("size", 0)
    content = [{"type": "text", "text": text}, *arguments.get("more", [])]
    send({"id": number, "result": {"content": content}})


asked = {}
chains = {}
waiting = []
# Whether a question was answered. Calls of `later` then have their results at once.
is_over = []


def ask(number, request):
    asked[request["id"]] = number
    send(request)


def wait_for_file():
    end = time.monotonic() + 60
    while not os.path.exists(log + ".go") and time.monotonic() < end:
        time.sleep(0.01)


def answered(message):
    number = asked.pop(message["id"])
    answer = message.get("result", message.get("error"))
    record(f"answer {json.dumps(answer, sort_keys=True)}")
    if chains[number]:
        ask(number, chains[number].pop())
    if number not in asked.values():
        text = json.dumps(answer, sort_keys=True)
        send({"id": number, "result": {"content": [{"type": "text", "text": text}]}})
        is_over.append(True)
        for other in waiting:
            send({"id": other, "result": {"content": []}})
        send({"method": "notifications/elicitation/complete", "params": {"elicitationId": "e1"}})


record(f"started {os.getpid()} {os.environ.get('TOKEN', '')}")
record(f"environment {' '.join(sorted(os.environ))}")
if "dies" in behaviours:
    print("The disk is full.", file=sys.stderr)
    sys.exit(3)
if "slow" in behaviours:
    wait_for_file()
if "forks" in behaviours and os.fork() == 0:
    os.setsid()
    time.sleep(1000)
for line in sys.stdin:
    if "hangs" in behaviours:
        time.sleep(1000)
    if "garbage" in behaviours:
        sys.stdout.write("}{ not JSON\n" * 1000)
    message = json.loads(line)
    method, number = message.get("method"), message.get("id")
    if method == "initialize":
        record(f"capabilities {json.dumps(message['params']['capabilities'], sort_keys=True)}")
        send({"id": number, "result": {
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": "test", "version": "1"}}})
    elif method == "tools/list":
        send({"id": number, "result": {"tools": tools()}})
    elif method == "tools/call":
        if "quits" in behaviours:
            sys.exit(4)
        params = message["params"]
        if params["name"] == "leave":
            send({"id": number, "result": {"content": [{"type": "text", "text": "Bye."}]}})
            sys.exit(0)
        token = params.get("_meta", {}).get("progressToken")
        call(number, params["name"], params.get("arguments", {}), token)
    elif method == "notifications/cancelled":
        record(f"cancelled {message['params']['requestId']}")
    elif method is None and number in asked:
        answered(message)
    elif number is not None and method:
        send({"id": number, "result": {}})
record("closed")
