"""Nodes of the lab: on one kernel, but each with its own network, processes, mounts, host name and tree of control groups.

What an agent sees of the kernel's cgroup tree is then what is below its node: a probe hangs from the node's root and meets
nobody else's sockets. Used by `compare`.

Everything lives below one process namespace: when its first process ends, in whatever way, the kernel ends the rest.
"""

import os
import signal
import subprocess
import sys
import time

NET = "10.88.0"
CONTROL = 254
BRIDGE = "lab"

# First process of a node. Daemons leave the root of its control groups, because a group with processes of its own can
# give no controllers to those below. The shell reaps what loses its parent.
INIT = r"""
set -e
umount -R /sys || umount -l /sys
mount -t sysfs sysfs /sys
mount -t tmpfs -o mode=755 tmpfs /sys/fs/cgroup 2>/dev/null || mkdir -p /sys/fs/cgroup
mount -t cgroup2 none /sys/fs/cgroup
[ -d /sys/kernel/tracing ] && mount -t tracefs none /sys/kernel/tracing 2>/dev/null || true
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /sys/fs/cgroup/daemons /sys/fs/cgroup/system.slice
echo $$ >/sys/fs/cgroup/daemons/cgroup.procs
for place in /sys/fs/cgroup /sys/fs/cgroup/system.slice; do
    for one in $(cat $place/cgroup.controllers); do echo +$one >$place/cgroup.subtree_control || true; done
done
ip link set lo up
echo ready
set +e
sleep infinity &
wait
"""


class Failed(Exception):
    """Something of the lab did not work; the message says what."""


def run(*words, **more):
    """Runs a command to its end and gives what it printed."""
    done = subprocess.run(words, capture_output=True, text=True, **more)
    if done.returncode != 0:
        raise Failed(f"{' '.join(words)} ended with {done.returncode}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def wait(what, seconds, look):
    """Gives what `look` gives once that is true."""
    end = time.monotonic() + seconds
    while True:
        if found := look():
            return found
        if time.monotonic() > end:
            raise Failed(f"waited {seconds} s in vain: {what}")
        time.sleep(0.2)


def alone(arguments, groups):
    """Runs this program again as the first process of namespaces of its own, and gives its exit status. What it leaves
    behind, in whatever way it ends, are empty control groups, which are removed."""
    words = ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--net", "--uts", "--pid", "--fork", "--kill-child"]
    child = subprocess.Popen([*words, "--mount-proc", sys.executable, *arguments])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: child.kill())
    try:
        return child.wait()
    finally:
        top = root_of_groups()
        if top is None:
            return 1
        # Deepest first; the last processes may take a moment to go.
        for _ in range(50):
            tree = [place for place, *_ in os.walk(os.path.join(top, groups), topdown=False)]
            for place in tree:
                try:
                    os.rmdir(place)
                except OSError:
                    pass
            if not os.path.isdir(os.path.join(top, groups)):
                break
            time.sleep(0.1)


def root_of_groups():
    """Where cgroup2 is mounted; None when it is not."""
    with open("/proc/mounts", encoding="utf-8") as mounts:
        rows = [line.split() for line in mounts]
    return next((row[1] for row in rows if row[2] == "cgroup2"), None)


class Nodes:
    """Nodes `n1`, `n2`, … beside the host `control`, which is where this program runs."""

    def __init__(self, count, folder, mtu, groups):
        self.names = [f"n{i + 1}" for i in range(count)]
        self.folder = folder
        self.pids = {}
        self.started = []
        run("hostname", "control")
        hosts = "".join(f"{NET}.{i + 1} {name}\n" for i, name in enumerate(self.names))
        with open(f"{folder}/hosts", "w", encoding="utf-8") as out:
            out.write(f"127.0.0.1 localhost\n{NET}.{CONTROL} control\n{hosts}")
        run("mount", "--bind", f"{folder}/hosts", "/etc/hosts")
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "add", BRIDGE, "mtu", str(mtu), "type", "bridge")
        run("ip", "address", "add", f"{NET}.{CONTROL}/24", "dev", BRIDGE)
        run("ip", "link", "set", BRIDGE, "up")
        for i, name in enumerate(self.names):
            self._start(name, f"{NET}.{i + 1}", mtu, os.path.join(root_of_groups(), groups, name))

    def _start(self, name, address, mtu, group):
        os.makedirs(group)

        def enter():
            with open(os.path.join(group, "cgroup.procs"), "w", encoding="utf-8") as procs:
                procs.write("0")

        words = ["unshare", "--mount", "--net", "--uts", "--pid", "--cgroup", "--fork", "--kill-child", "--mount-proc"]
        script = f"hostname {name}\n{INIT}"
        with open(f"{self.folder}/log/{name}.init", "wb") as log:
            child = subprocess.Popen(
                [*words, "bash", "-c", script], preexec_fn=enter, stdout=subprocess.PIPE, stderr=log
            )
        self.started.append(child)
        if child.stdout.readline() != b"ready\n":
            with open(f"{self.folder}/log/{name}.init", encoding="utf-8") as log:
                raise Failed(f"node {name} did not start: {log.read().strip()}")
        with open(f"/proc/{child.pid}/task/{child.pid}/children", encoding="utf-8") as children:
            pid = children.read().split()[0]
        self.pids[name] = pid
        run("ip", "link", "add", f"to-{name}", "mtu", str(mtu), "type", "veth", "peer", "name", "eth0", "netns", pid)
        run("ip", "link", "set", f"to-{name}", "master", BRIDGE, "up")
        self.run(name, "ip", "link", "set", "eth0", "mtu", str(mtu), "up")
        self.run(name, "ip", "address", "add", f"{address}/24", "dev", "eth0")

    def _inside(self, name):
        return ["nsenter", "--target", self.pids[name], "--mount", "--net", "--uts", "--pid", "--cgroup", "--"]

    def run(self, name, *words):
        """Runs a command on a node to its end."""
        return run(*self._inside(name), *words)

    def daemon(self, name, label, *words):
        """Starts a daemon on a node (None: here), its output in a log of that label."""
        before = []
        if name is not None:
            # nsenter leaves the caller in its own control group.
            into = 'echo $$ >/sys/fs/cgroup/daemons/cgroup.procs; exec "$@"'
            before = [*self._inside(name), "bash", "-c", into, "daemon"]
        with open(f"{self.folder}/log/{label}", "ab") as log:
            child = subprocess.Popen([*before, *words], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.started.append(child)
        return child

    def stop(self):
        """Ends every node and daemon."""
        for child in reversed(self.started):
            child.kill()
        for child in self.started:
            child.wait()
        for name in self.names:
            # It goes with the node, which may take a moment.
            subprocess.run(["ip", "link", "delete", f"to-{name}"], capture_output=True, check=False)
        run("ip", "link", "delete", BRIDGE)
        run("umount", "/etc/hosts")
