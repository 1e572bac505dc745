"""Slurm on the lab's nodes, and beside it Fabriclens: an agent on each node and one collector. Used by `compare`."""

import json
import os
import urllib.error
import urllib.parse
import urllib.request

from nodes import CONTROL, NET, Failed, run, wait

HTTP = 7470
OTLP = 4317

# `track` says whether Slurm makes control groups: where it does not, nothing tells a job's sockets from others.
SLURM = """
ClusterName=lab
SlurmctldHost=control({net}.{control})
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/log/slurmctld
SlurmdLogFile={folder}/log/slurmd-%n
ProctrackType=proctrack/{track}
TaskPlugin=task/{task}
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
{nodes}
PartitionName=lab Nodes=ALL Default=YES State=UP
"""
GROUPS = "CgroupPlugin=cgroup/v2\nIgnoreSystemd=yes\nConstrainCores=no\nConstrainRAMSpace=no\n"

HOOK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../deploy/slurm/fabriclens-hook")
# Of nodes none: they are namespaces, which reach no collector at the loopback address and share one spool.
HOOKED = ("PrologSlurmctld", "EpilogSlurmctld")

COLLECTOR = """
data = "{folder}/data"
insecure = true
[listen]
http = "127.0.0.1:{http}"
otlp_grpc = "{net}.{control}:{otlp}"
"""
SQUEUE = '[jobs]\nsqueue = "squeue --json --states=all"\n'


class Cluster:
    """A running cluster; `groups`: whether jobs have control groups of their own. With `programs.hooks`
    Slurm's hooks tell the collector of jobs, and squeue is not asked."""

    def __init__(self, nodes, groups, programs):
        self.nodes, self.folder = nodes, nodes.folder
        os.environ["SLURM_CONF"] = f"{self.folder}/slurm.conf"
        os.makedirs(f"{self.folder}/state", exist_ok=True)
        self._configure(groups, programs.hooks)
        self._munge()
        nodes.daemon(None, "slurmctld.out", "slurmctld", "-D", "-c")
        nodes.daemon(None, "collector", programs.collector, "serve", "--config", f"{self.folder}/collector.toml")
        for name in nodes.names:
            os.makedirs(f"{self.folder}/spool-{name}", exist_ok=True)
            nodes.daemon(name, f"slurmd-{name}.out", *self._preload(), "slurmd", "-D", "-N", name)
        url = f"http://{NET}.{CONTROL}:{OTLP}"
        os.environ["FABRICLENS_AGENT_COLLECTOR_INSECURE"] = "true"
        for name in nodes.names:
            nodes.daemon(name, f"agent-{name}", programs.agent, "run", "--collector", url)
        wait("all nodes are idle", 30, self._idle)
        wait("agents are heard", 30, self._heard)

    def _configure(self, groups, hooks):
        rows = (f"NodeName={n} NodeAddr={NET}.{i + 1} CPUs=4 RealMemory=1000" for i, n in enumerate(self.nodes.names))
        how = {"track": "cgroup", "task": "cgroup"} if groups else {"track": "linuxproc", "task": "none"}
        more = {"net": NET, "control": CONTROL, "folder": self.folder}
        rows = [*rows, *(f"{when}={os.path.abspath(HOOK)}" for when in HOOKED if hooks)]
        texts = {
            "slurm.conf": SLURM.format(nodes="\n".join(rows), **more, **how),
            "cgroup.conf": GROUPS,
            "collector.toml": COLLECTOR.format(http=HTTP, otlp=OTLP, **more) + ("" if hooks else SQUEUE),
        }
        for name, text in texts.items():
            with open(f"{self.folder}/{name}", "w", encoding="utf-8") as out:
                out.write(text)

    def _munge(self):
        at = self.folder
        with open(f"{at}/munge.key", "wb") as key:
            os.chmod(f"{at}/munge.key", 0o600)
            key.write(os.urandom(1024))
        files = [f"--{f}={at}/munge.{e}" for f, e in (("socket", "sock"), ("pid-file", "pid"), ("seed-file", "seed"))]
        more = [f"--key-file={at}/munge.key", f"--log-file={at}/log/munged"]
        self.nodes.daemon(None, "munged.out", "munged", "--foreground", "--force", *files, *more)
        wait("munged listens", 10, lambda: os.path.exists(f"{at}/munge.sock"))

    def _preload(self):
        """What slurmd needs before it where version 1 is mounted too."""
        with open("/proc/mounts", encoding="utf-8") as mounts:
            if all(line.split()[2] != "cgroup" for line in mounts):
                return []
        library = f"{self.folder}/unified.so"
        if not os.path.exists(library):
            source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "unified.c")
            run("gcc", "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o", library, source)
        return ["env", f"LD_PRELOAD={library}"]

    def _idle(self):
        try:
            states = run("sinfo", "--noheader", "--Node", "--format=%T").split()
        except Failed:
            return False
        return len(states) == len(self.nodes.names) and set(states) == {"idle"}

    def _heard(self):
        try:
            heard = self.query('count by (host) (fabric_tcp_io_bytes_total{direction="receive"})')
        except OSError:
            return False
        return {s["metric"]["host"] for s in heard} >= set(self.nodes.names)

    def get(self, path):
        """An answer of the collector's API."""
        with urllib.request.urlopen(f"http://127.0.0.1:{HTTP}{path}", timeout=10) as answer:
            return json.load(answer)

    def query(self, promql):
        """Series of an instant query."""
        return self.get(f"/api/v1/query?query={urllib.parse.quote(promql)}")["data"]["result"]

    def ended(self, job):
        """Whether the collector knows that a job is over."""
        try:
            return self.get(f"/api/v1/jobs/{job}")["data"]["end_ns"] is not None
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return False
            raise

    def submit(self, name, hosts, script, *arguments):
        """Submits a batch script of two tasks on two nodes and gives the job's id."""
        words = ["--job-name", name, "--nodelist", ",".join(hosts), "--nodes=2", "--ntasks-per-node=1"]
        output = f"--output={self.folder}/log/job-%j"
        return run("sbatch", "--parsable", *words, output, f"--chdir={self.folder}", script, *arguments).strip()

    def over(self, job, seconds):
        """Waits until Slurm has ended a job, and the collector knows it."""
        state = lambda: run("squeue", "--noheader", "--states=all", f"--jobs={job}", "--format=%T").strip()
        ends = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")
        how = wait(f"job {job} ends", seconds, lambda: next((s for s in [state()] if s in ends), None))
        if how != "COMPLETED":
            with open(f"{self.folder}/log/job-{job}", encoding="utf-8") as log:
                raise Failed(f"job {job} is {how}: {log.read().strip()}")
        wait(f"the collector knows that job {job} ended", 40, lambda: self.ended(job))

    def report(self, job):
        """The report of a job."""
        return self.get(f"/api/v1/jobs/{job}/report?format=json")
