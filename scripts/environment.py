"""The development environment: `setup` makes `.venv` from the hashed locks, `fuzz` adds to it what
only fuzzing needs, `lock` rewrites the locks.

Runs on the plain interpreter that `make` found, before anything is installed, so it uses the
standard library alone. It never names a package registry: which one is asked, and how, is the
machine's configuration, and that is the only part of pip's and uv's variables that it lets through.
"""

from __future__ import annotations

import ast
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
BIN = VENV / "bin"
STAMP = VENV / ".callboard-setup"
LOCKS = ROOT / "requirements"
BOOTSTRAP = LOCKS / "bootstrap.txt"
DEV = LOCKS / "dev.txt"
RUNTIME = LOCKS / "runtime.txt"
FUZZ = LOCKS / "fuzz.txt"
# A change to any of these makes the environment stale.
INPUTS = (
    BOOTSTRAP,
    DEV,
    ROOT / "pyproject.toml",
    ROOT / "src" / "callboard" / "__init__.py",
    Path(__file__).resolve(),
)

# Where packages come from and how they are reached. Everything else that starts with PIP_ or UV_
# changes what is installed or where to, and stays outside.
REACH = {
    "PIP_CACHE_DIR", "PIP_CERT", "PIP_CLIENT_CERT", "PIP_CONFIG_FILE", "PIP_DEFAULT_TIMEOUT",
    "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_INDEX_URL", "PIP_KEYRING_PROVIDER",
    "PIP_NO_CACHE_DIR", "PIP_NO_INDEX", "PIP_PROXY", "PIP_RETRIES", "PIP_TRUSTED_HOST",
    "UV_CACHE_DIR", "UV_CONCURRENT_DOWNLOADS", "UV_CONFIG_FILE", "UV_DEFAULT_INDEX",
    "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS", "UV_HTTP_RETRIES", "UV_HTTP_TIMEOUT", "UV_INDEX",
    "UV_INDEX_URL", "UV_INSECURE_HOST", "UV_KEYRING_PROVIDER", "UV_LINK_MODE", "UV_NATIVE_TLS",
    "UV_NO_CACHE", "UV_NO_INDEX", "UV_OFFLINE", "UV_SYSTEM_CERTS",
}  # fmt: skip
REACH_PREFIXES = ("UV_INDEX_",)  # the user name and password of a named index
AMBIENT = {"CONDA_PREFIX", "PYTHONHOME", "PYTHONPATH", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__"}


class SetupError(Exception):
    """The environment cannot be made; the text says why and what to do."""


def clean_environment() -> dict[str, str]:
    """The caller's environment without what would redirect Python, pip or uv."""
    return {
        name: value
        for name, value in os.environ.items()
        if name not in AMBIENT and not (name.startswith(("PIP_", "UV_")) and not reaches(name))
    } | {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1"}


def reaches(name: str) -> bool:
    """Whether the variable tells only where packages come from."""
    return name in REACH or name.startswith(REACH_PREFIXES)


def run(*argv: str | Path, env: dict[str, str]) -> None:
    """Run a command in the root; raises `SetupError` naming it when it fails."""
    command = [str(part) for part in argv]
    if subprocess.run(command, cwd=ROOT, env=env, check=False).returncode:
        raise SetupError(f"this command failed: {' '.join(command)}")


def fingerprint() -> str:
    """The digest of all that decides what `.venv` holds."""
    digest = hashlib.sha256(f"{sys.version}\0{VENV}\0".encode())
    for path in INPUTS:
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def is_current() -> bool:
    """Whether the last `setup` finished and nothing it read has changed since."""
    try:
        recorded = STAMP.read_text()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return recorded == fingerprint() and os.access(BIN / "callboard", os.X_OK)


def setup() -> None:
    """Make `.venv` agree with the locks and install the project into it, editable."""
    if is_current():
        return
    with one_at_a_time():
        if is_current():
            return
        STAMP.unlink(missing_ok=True)
        env = clean_environment()
        make_venv(env)
        python, uv = BIN / "python", BIN / "uv"
        # Compiled once, here: else each process does it anew wherever Python may not keep it.
        quietly: list[str | Path] = ["--quiet", "--compile-bytecode", "--python", python]
        # Twice quiet: pip warns of each registry on its list that lacks a package.
        run(
            python, "-m", "pip", "install", "-qq", "--require-hashes", "--only-binary=:all:",
            "--requirement", BOOTSTRAP, env=env,
        )  # fmt: skip
        env = with_registry_of_pip(env)
        run(uv, "pip", "sync", *quietly, "--require-hashes", BOOTSTRAP, DEV, env=env)
        run(
            uv, "pip", "install", *quietly, "--no-deps", "--no-build-isolation", "--editable", ".",
            env=env,
        )  # fmt: skip
        run(python, "-m", "compileall", "-q", "-j", "0", "src", env=env)
        STAMP.write_text(fingerprint())
    print(f"{BIN / 'callboard'} is ready")


def add_fuzzer() -> None:
    """Install what fuzzing needs, unless it is there; a `setup` of changed locks drops it."""
    probe = [str(BIN / "python"), "-c", "import atheris"]
    if subprocess.run(probe, capture_output=True, check=False).returncode == 0:
        return
    with one_at_a_time():
        env = with_registry_of_pip(clean_environment())
        run(
            BIN / "uv", "pip", "install", "--quiet", "--python", BIN / "python",
            "--require-hashes", "--only-binary=:all:", "--requirement", FUZZ, env=env,
        )  # fmt: skip


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Hold the folder of the locks, so that two `make` never change `.venv` together."""
    descriptor = os.open(LOCKS, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def make_venv(env: dict[str, str]) -> None:
    """Keep a `.venv` of this interpreter, replace any other."""
    if VENV.is_symlink() or (VENV.exists() and not VENV.is_dir()):
        raise SetupError(f"{VENV} is not a folder: move it away and run `make setup` again")
    if VENV.exists() and not belongs_to_this_python(env):
        shutil.rmtree(VENV)
    if not VENV.exists():
        print(f"making {VENV} with Python {sys.version.split()[0]}", flush=True)
        # Not `venv.create`: the command line finds the right ensurepip and explains its absence.
        try:
            run(sys.executable, "-m", "venv", VENV, env=env)
        except SetupError as error:
            shutil.rmtree(VENV, ignore_errors=True)
            raise SetupError(
                f"{error}\nwhere a system splits Python up, install its venv part (python3-venv)"
            ) from None


def belongs_to_this_python(env: dict[str, str]) -> bool:
    """Whether `.venv` runs, stands where it was made, has pip and comes from this interpreter."""
    probe = "import pip, sys; print(sys.prefix, sys.base_prefix, sys.version, sep='\\0')"
    python, script = BIN / "python", BIN / "pip"
    # A moved `.venv` still runs, but its scripts start the interpreter of the old place.
    if not python.exists() or not script.exists() or str(BIN) not in script.read_text():
        return False
    answer = subprocess.run(
        [str(python), "-c", probe], env=env, capture_output=True, text=True, check=False
    )
    expected = "\0".join([str(VENV), sys.base_prefix, sys.version])
    return answer.returncode == 0 and answer.stdout.rstrip("\n") == expected


def with_registry_of_pip(env: dict[str, str]) -> dict[str, str]:
    """`env` with pip's configured registry told to uv, which does not read pip's settings.

    Passed as variables, not as arguments, since an address may carry a password.
    """
    settings = pip_settings(env)
    told = dict(env)
    if not {"UV_DEFAULT_INDEX", "UV_INDEX_URL"} & env.keys() and "index-url" in settings:
        told["UV_DEFAULT_INDEX"] = settings["index-url"]
        if "extra-index-url" in settings:
            told.setdefault("UV_INDEX", settings["extra-index-url"])
            # Hashes are pinned, so it does not matter which registry answers.
            told.setdefault("UV_INDEX_STRATEGY", "unsafe-best-match")
    if "trusted-host" in settings:
        told.setdefault("UV_INSECURE_HOST", settings["trusted-host"])
    if "cert" in settings:
        told.setdefault("SSL_CERT_FILE", settings["cert"])
    if "proxy" in settings:
        told.setdefault("ALL_PROXY", settings["proxy"])
    return told


def pip_settings(env: dict[str, str]) -> dict[str, str]:
    """pip's effective settings for `install`: variables over `[install]` over `[global]`."""
    answer = subprocess.run(
        [str(BIN / "python"), "-m", "pip", "config", "list"],
        env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    found: dict[str, dict[str, str]] = {"global": {}, "install": {}, ":env:": {}}
    for line in answer.stdout.splitlines():
        name, _, value = line.partition("=")
        section, _, key = name.rpartition(".")
        if section in found:
            # pip splits lists on any white space, line ends too; uv wants single spaces.
            found[section][key] = " ".join(str(ast.literal_eval(value)).split())
    return found["global"] | found["install"] | found[":env:"]


def lock(*options: str) -> None:
    """Resolve pyproject.toml into the locks; `options` go to uv (for example `--upgrade`)."""
    env = with_registry_of_pip(clean_environment())
    for output, wanted in (
        (BOOTSTRAP, ["--group", "bootstrap"]),
        (RUNTIME, ["pyproject.toml", "--constraints", BOOTSTRAP]),
        (DEV, ["pyproject.toml", "--group", "dev", "--constraints", BOOTSTRAP,
               "--constraints", RUNTIME]),
        (FUZZ, ["--group", "fuzz", "--constraints", DEV]),
    ):  # fmt: skip
        run(
            BIN / "uv", "pip", "compile", "--quiet", "--generate-hashes", "--universal",
            "--python-version", "3.11", "--no-emit-index-url", "--no-emit-find-links",
            "--custom-compile-command", "make lock", *options,
            *wanted, "--output-file", output, env=env,
        )  # fmt: skip
        if "://" in output.read_text():
            raise SetupError(f"{output} names an address: locks are taken from any registry")


def main(arguments: list[str]) -> int:
    """Carry out `setup`, `fuzz` or `lock [OPTION…]`; returns the exit code."""
    try:
        if arguments == ["setup"]:
            setup()
        elif arguments == ["fuzz"]:
            add_fuzzer()
        elif arguments[:1] == ["lock"]:
            lock(*arguments[1:])
        else:
            raise SetupError(
                f"unknown arguments {arguments}: say `setup`, `fuzz` or `lock [UV OPTION…]`"
            )
    except SetupError as error:
        print(f"environment: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
