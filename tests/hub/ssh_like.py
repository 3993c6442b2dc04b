"""Stands for ssh: runs the command of a remote here, through a network that can be cut, slow, silent or gone.

Git calls it (`GIT_SSH_COMMAND`) with a host and a command. The file that `SSH_LIKE` names is a line of JSON:
`{"up": 300}` lets 300 bytes through to the remote and then cuts, `down` the same for its answers, `delay` is for each
message, `refuse` connects to nothing, `stall` lets nothing through and does not end. Bytes are counted there, too.
"""

import json
import os
import selectors
import subprocess
import sys
import time


def relay(command: str, plan: dict[str, float], count: dict[str, int]) -> int:
    """Run the command between our input and our output; gives its status, 255 when the network was cut."""
    there = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    remote = subprocess.Popen(["sh", "-c", command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=there)
    assert remote.stdin
    assert remote.stdout
    ways = {0: (remote.stdin.fileno(), "up"), remote.stdout.fileno(): (1, "down")}
    with selectors.DefaultSelector() as selector:
        for source in ways:
            selector.register(source, selectors.EVENT_READ)
        while remote.stdout.fileno() in selector.get_map():
            for key, _ in selector.select():
                target, way = ways[key.fd]
                data = os.read(key.fd, 65536)
                time.sleep(plan.get("delay", 0))
                left = int(plan.get(way, 1 << 40)) - count[way]
                count[way] += len(data[:left])
                try:
                    os.write(target, data[:left]) if data else os.close(target)
                except BrokenPipeError:
                    data = b""
                if len(data) > left:
                    count["cuts"] = 1
                    remote.stdin.close()  # the remote sees its input end, as with a line that went dead
                    remote.wait()
                    return 255
                if not data:
                    selector.unregister(key.fd)
    return remote.wait()


def main() -> int:
    """Play ssh once."""
    path = os.environ["SSH_LIKE"]
    with open(path, encoding="utf-8") as file:
        plan = json.load(file)
    if plan.get("refuse"):
        print("ssh: connect to host: Connection refused", file=sys.stderr)
        return 255
    while plan.get("stall"):
        time.sleep(60)
    count = {"up": 0, "down": 0, "cuts": 0}
    status = relay(sys.argv[-1], plan, count)
    with open(f"{path}.count", "a", encoding="utf-8") as file:
        print(json.dumps(count), file=file)
    return status


if __name__ == "__main__":
    sys.exit(main())
