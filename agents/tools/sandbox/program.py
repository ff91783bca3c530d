"""What runs inside of the sandboxes ``subprocess`` and ``docker``: its source is handed to ``python -c``.

The first process, the warden, forks the program and waits. When the program is over, at SIGTERM, or when nobody seems
to be left to send one, the warden ends all that the program started, and then itself. Python 3.9 and the standard
library are enough for it.

    fd 0   the job, a JSON object: `arena.agents.tools.sandbox.supervisor.Job`, and how many seconds the warden waits
    fd 1   what the program prints, on both of its streams
    fd 2   what comes of it, a JSON list a line: ["ready"], ["part"] before each part but the first, and at the end
           ["value", VALUE], ["error", TYPE, MESSAGE, LINE], or ["setup", WHY] if the program could not be run

What keeps a program in, from strong to weak: limits of the system; on Linux, where the kernel lets it, namespaces
without network and with processes of their own; for root, a user id of its own; and an audit hook, which turns away
what goes by Python's own doors (files outside, connections, other programs, signals to others) but not one who is
bent on getting out.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import json
import os
import random
import resource
import signal
import sys
import time
import types
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

_LINUX = sys.platform == "linux"
_AWAITED = {signal.SIGCHLD, signal.SIGTERM, signal.SIGALRM}
_SET_PDEATHSIG, _SET_KEEPCAPS, _SET_CHILD_SUBREAPER, _SET_NO_NEW_PRIVS = 1, 8, 36, 38
_NEW_IPC, _NEW_USER, _NEW_PID, _NEW_NET = 0x08000000, 0x10000000, 0x20000000, 0x40000000
_CAPABILITY_VERSION, _READ_ANY = 0x20080522, 1 << 2
FIRST_USER = 2_000_000_000
"""User ids from here on belong to nobody; the warden's process id is added."""
_FILE_SIZE, _OPEN_FILES = 16 * 2**20, 64
_NAME = "<program>"


# -- the warden


def main() -> NoReturn:
    """Run the job on standard input."""
    job = json.load(sys.stdin)
    signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)
    root = os.geteuid() == 0 and job["own_user"]
    job["user"] = FIRST_USER + os.getpid() if root else None
    if root:
        os.chown(".", job["user"], job["user"])
    job["processes"] += 0 if root else _tasks_of(os.getuid())
    if _LINUX:
        _fence(job["namespaces"])
    child = os.fork()
    if child == 0:
        _be_program(job)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    signal.alarm(job["patience"])
    os._exit(_watch(child))


def _fence(namespaces: bool) -> None:
    libc = _libc()
    libc.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # whoever is orphaned below becomes the warden's child
    libc.prctl(_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if namespaces:
        separate(processes=True)


def separate(processes: bool) -> None:
    """Take namespaces of our own, without network; not every system lets us, and then the other means have to do."""
    _libc().unshare((_NEW_PID if processes else 0) | _NEW_NET | _NEW_IPC | (_NEW_USER if os.geteuid() else 0))


def _watch(child: int) -> int:
    """Wait for the program, end what it left behind, and give its exit code (128 + N if signal N ended it)."""
    status = None
    while status is None and signal.sigwait(_AWAITED) == signal.SIGCHLD:
        status = _reap(child)
    with contextlib.suppress(OSError):
        if status is None:
            os.kill(child, signal.SIGKILL)
        if not _LINUX:  # where orphans cannot be found, those that kept to the program's group are
            os.killpg(child, signal.SIGKILL)
    while _LINUX:
        for orphan in _children():
            os.kill(orphan, signal.SIGKILL)
        try:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                time.sleep(0.001)
        except ChildProcessError:
            break
    if status is None:
        return 128 + signal.SIGTERM
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def _reap(child: int) -> Any:
    """Take the ended off the list of processes; the wait status of ``child`` if it is among them."""
    while True:
        try:
            ended, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return None
        if ended == child:
            return status
        if ended == 0:
            return None


def _children() -> list[int]:
    mine, found = str(os.getpid()), []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                # The name in parentheses may hold anything.
                parent = file.read().rpartition(b")")[2].split()[1].decode()
        except OSError:
            continue
        if parent == mine:
            found.append(int(name))
    return found


def _tasks_of(user: int) -> int:
    """How many processes and threads the user has already: the limit counts those as well."""
    count = 0
    for name in filter(str.isdecimal, os.listdir("/proc")) if _LINUX else ():
        try:
            if os.stat(f"/proc/{name}").st_uid == user:
                count += os.stat(f"/proc/{name}/task").st_nlink - 2
        except OSError:
            continue
    return count


# -- the program


def _be_program(job: dict[str, Any]) -> NoReturn:
    me, results = os.getpid(), os.dup(2)
    write, dumps, leave = os.write, json.dumps, os._exit

    def report(*said: Any) -> None:
        line = memoryview(f"{dumps(said)}\n".encode())
        while line:
            line = line[write(results, line) :]

    try:
        confine(job)
    except Exception as error:
        report("setup", f"{type(error).__name__}: {error}")
        leave(1)
    report("ready")
    said = _run(job["parts"], report)
    if os.getpid() == me:  # else a fork of the program's own came here
        try:
            report(*said)
        except MemoryError:
            report("error", "MemoryError", "", None)
    leave(0)


def confine(job: dict[str, Any]) -> None:
    """Give up, in this process and for good, all that a program has no use for."""
    os.setsid()
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(1, 2)
    os.environ.clear()
    if job["packages"]:
        import site

        site.main()
    roots = [os.path.realpath(path) for path in sys.path if path]
    _limit(job)
    if _LINUX:
        _drop_rights(job["user"], () if job["user"] is None else roots)
    random.seed(job["seed"])
    sys.modules.pop("ctypes", None)
    # Where it cannot see others, or has no rights over them, its signals reach its own processes alone.
    sys.addaudithook(_guard(roots, alone=os.getpid() == 1 or job["user"] is not None))


def _limit(job: dict[str, Any]) -> None:
    seconds = int(job["seconds"] * len(job["parts"])) + 1
    bounds = {
        resource.RLIMIT_CORE: (0, 0),
        resource.RLIMIT_CPU: (seconds, seconds + 1),
        resource.RLIMIT_FSIZE: (_FILE_SIZE, _FILE_SIZE),
        resource.RLIMIT_NOFILE: (_OPEN_FILES, _OPEN_FILES),
    }
    if _LINUX:
        with open("/proc/self/statm") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        bounds[resource.RLIMIT_AS] = (used + job["memory"] * 2**20,) * 2
        bounds[resource.RLIMIT_NPROC] = (job["processes"],) * 2
    for what, (soft, hard) in bounds.items():
        most = resource.getrlimit(what)[1]
        most = hard if most == resource.RLIM_INFINITY else min(hard, most)
        resource.setrlimit(what, (min(soft, most), most))


def _drop_rights(user: Any, library: Sequence[str]) -> None:
    """Become ``user`` (None: stay who we are) without any capability.

    Python's library may lie in root's own folder; then the right to read files is kept.
    """
    import ctypes

    libc = _libc()
    kept = 0 if all(map(_is_public, library)) else _READ_ANY
    libc.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if user is not None:
        libc.prctl(_SET_KEEPCAPS, 1, 0, 0, 0)
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    if libc.capset(header, (ctypes.c_uint32 * 6)(kept, kept)):
        raise OSError(ctypes.get_errno(), "capabilities cannot be dropped")
    libc.prctl(_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # last: a change of rights undoes it


def _is_public(path: str) -> bool:
    """Whether every user can enter a folder; what is not there needs no entering."""
    while os.path.exists(path):
        if not os.stat(path).st_mode & 0o001:
            return False
        if path == "/":
            break
        path = os.path.dirname(path)
    return True


def _libc() -> Any:
    import ctypes

    return ctypes.CDLL(None, use_errno=True)


# -- its doors

_READS = {"os.listdir", "os.scandir", "os.getxattr", "os.listxattr"}
_CHANGES = {
    *("os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.chmod", "os.chown", "os.chflags"),
    *("os.truncate", "os.utime", "os.setxattr", "os.removexattr", "os.chdir", "sqlite3.connect"),
}
_REFUSED = {
    *("os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.forkpty", "pty.spawn", "subprocess.Popen"),
    *("ctypes.dlsym", "ctypes.dlsym/handle", "ctypes.call_function", "resource.prlimit"),
}
_SIGNALS = {"os.kill", "os.killpg"}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def _guard(roots: Sequence[str], alone: bool) -> Callable[[str, tuple[Any, ...]], None]:
    """An audit hook for a program that may read ``roots`` and do what it likes in its own folder."""
    realpath, getpid, own, local = os.path.realpath, os.getpid, os.path.realpath("."), 1
    writable = (own, os.devnull)
    readable = (*writable, *roots, "/usr/share/zoneinfo")

    def check(paths: Sequence[Any], allowed: Sequence[str]) -> None:
        for path in paths:
            if not isinstance(path, (str, bytes, os.PathLike)) or path == ":memory:":
                continue
            full = realpath(os.fsdecode(path))
            if not any(full == root or full.startswith(root + "/") for root in allowed):
                raise PermissionError(f"'{os.fsdecode(path)}' lies outside of the sandbox")

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event == "open":
            check(args[:1], writable if (args[2] or 0) & _WRITING else readable)
        elif event in _READS:
            check(args[:1], readable)
        elif event in _CHANGES:
            check(args[:2], writable)
        elif (
            event in _REFUSED
            or (event in _SIGNALS and not alone and args[0] != getpid())
            or (event == "ctypes.dlopen" and args[0] is not None)
            or (event.startswith("socket.") and not (event == "socket.__new__" and args[1] == local))
        ):
            raise PermissionError(f"{event} is not allowed in the sandbox")

    return hook


# -- its parts


def _run(parts: Sequence[str], report: Callable[..., None]) -> tuple[Any, ...]:
    """What came of the parts, as it is reported."""
    module = sys.modules["__main__"] = types.ModuleType("__main__")
    value = None
    for number, source in enumerate(parts):
        if number:
            report("part")
        try:
            value = _execute(source, module.__dict__)
        except BaseException as error:  # SystemExit and KeyboardInterrupt end the program, not the report
            says = error.msg if isinstance(error, SyntaxError) else _described(str, error)
            return "error", type(error).__name__[:60], str(says)[:300], _line_of(error)
    try:
        return "value", _plain(value)
    except (ValueError, RecursionError, MemoryError):
        return "value", ["other", f"(a {type(value).__name__} that cannot be shown)"]


def _execute(source: str, names: dict[str, Any]) -> Any:
    tree = ast.parse(source, _NAME)
    last = tree.body[-1] if tree.body else None
    if not isinstance(last, ast.Expr):
        return exec(compile(tree, _NAME, "exec"), names)
    tree.body.pop()
    exec(compile(tree, _NAME, "exec"), names)
    return eval(compile(ast.Expression(last.value), _NAME, "eval"), names)


def _line_of(error: BaseException) -> Any:
    if isinstance(error, SyntaxError) and error.filename == _NAME:
        return error.lineno
    line, step = None, error.__traceback__
    while step is not None:
        if step.tb_frame.f_code.co_filename == _NAME:
            line = step.tb_lineno
        step = step.tb_next
    return line


def _plain(value: Any) -> Any:
    """A value in JSON, by its exact type: what only looks like one stays here, described."""
    kind = type(value)
    if value is None or kind in (bool, float, str):
        return value
    if kind is int:
        str(value)  # raises for more digits than are ever written
        return value
    if kind in (list, tuple, set, frozenset):
        return [kind.__name__, [_plain(item) for item in value]]
    if kind is dict:
        return ["dict", [[_plain(key), _plain(item)] for key, item in value.items()]]
    if kind is bytes:
        return ["bytes", value.hex()]
    if kind is complex:
        return ["complex", [value.real, value.imag]]
    return ["other", _described(repr, value)[:10_000]]


def _described(how: Callable[[Any], str], value: Any) -> str:
    try:
        return builtins.str(how(value))
    except BaseException:
        return f"(a {type(value).__name__} that cannot be shown)"


if __name__ == "__main__":
    main()
