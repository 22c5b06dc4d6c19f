"""Clusters on this host, for tests, examples and single-host jobs."""

import os
import shutil
import subprocess
import sys
import tempfile
import weakref

from slabyard.client import Client

# The cluster ends when the pipe from this process does: with a line (close), or because this
# process is gone, however it went. $0 is a directory of ours to remove then, or sh.
_KEEPER = """
"$@" </dev/null & pid=$!; exec >&- 2>&-; read -r line; kill -TERM "$pid"; wait "$pid"
[ "$0" = sh ] || rmdir "$0"
"""
_STOP_S = 60


def command_path():
    """The slabyard command that came with this package."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "slabyard")
    if not os.access(path, os.X_OK):
        raise FileNotFoundError(f"{path} is missing: install the package again")
    return path


class Cluster:
    """A running cluster; slabyard.local makes one. Leaving its with block stops it.

    run_dir: where it lives, a str; other processes of this user open Client(run_dir).
    """

    def __init__(self, process, run_dir, top):
        self.run_dir = run_dir
        self._process = process
        self._finish = weakref.finalize(self, _stop, process, top, os.getpid())

    def client(self, **options):
        """A Client of this cluster; options as of Client."""
        return Client(self.run_dir, **options)

    def close(self):
        """Stops the units; what they held is gone."""
        self._finish()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()


def _stop(process, top, pid):
    if os.getpid() != pid:
        return  # a forked child: the cluster is its parent's
    if process.poll() is None:
        try:
            process.stdin.write(b"\n")
            process.stdin.flush()
        except BrokenPipeError:
            pass
    process.stdin.close()
    process.stdout.close()
    process.wait(_STOP_S)
    if top is not None:
        shutil.rmtree(top, ignore_errors=True)


def local(units=1, *, slab_bytes="256MiB", run_dir=None, options=()):
    """Starts a cluster of `units` units on this host and returns it once all of them serve.

    slab_bytes: memory of each unit, as an int or as "64MiB". run_dir: default is a temporary one,
    removed at the end. options: more words for `slabyard up`. The cluster ends with the with
    block, close(), or this process. RuntimeError says why it did not start.

    >>> with local(units=2, slab_bytes="64MiB") as cluster, cluster.client() as client:
    ...     client.put(["7@note"], ["hello"])
    ...     client.get(["7@note"])
    ['hello']
    """
    top = None
    if run_dir is None:
        top = tempfile.mkdtemp(prefix="slabyard-")
        run_dir = os.path.join(top, "run")
    words = [
        command_path(),
        "up",
        "--run-dir",
        os.fspath(run_dir),
        "--units",
        str(units),
        "--slab-bytes",
        str(slab_bytes),
        *options,
    ]
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            ["/bin/sh", "-c", _KEEPER, top or "sh", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            start_new_session=True,  # Ctrl-C is for this process, which then stops the cluster
        )
        try:
            ready = process.stdout.readline()
        except BaseException:
            _stop(process, top, os.getpid())
            raise
        if not ready:
            _stop(process, top, os.getpid())
            said.seek(0)
            lines = said.read().decode(errors="replace").strip().splitlines()
            raise RuntimeError(lines[-1] if lines else "the cluster did not start")
    return Cluster(process, os.fspath(run_dir), top)


def run_command(arguments):
    """Becomes the slabyard command."""
    path = command_path()
    sys.stdout.flush()
    os.execv(path, [path, *arguments])
