"""A worker that speaks by the commands of the command line, as its first task's script says.

Run by a recipe. Each step is a list of words for `callboard worker`; what each of them answered is
appended to the file that the payload names as `told`. A few words are the worker's own:
`write FILE TEXT`, `forge NAME TEXT` (a file put into the staging folder past every command),
`say FILE` and `await FILE`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

_STEP_S, _STEPS = 0.01, 12_000


def speak(words: list[str]) -> dict[str, Any]:
    """Run one command; how it ended, the code of a refusal, and what it answered."""
    done = subprocess.run(
        [sys.executable, "-m", "callboard", "worker", *words, "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    answer = json.loads(done.stdout) if done.stdout else {}
    code = answer.get("error", {}).get("code")
    return {"words": words, "status": done.returncode, "code": code, "answer": answer}


def wait_for(path: str) -> None:
    """Wait until somebody made that file."""
    pause = threading.Event()
    for _step in range(_STEPS):
        if os.path.exists(path):
            return
        pause.wait(_STEP_S)


def take(step: list[str]) -> dict[str, Any] | None:
    """One step; what it answered, if it was a command."""
    if step[0] == "write":
        Path(step[1]).write_text(step[2])
    elif step[0] == "forge":
        (Path(os.environ["CALLBOARD_STAGING"]) / step[1]).write_text(step[2])
    elif step[0] == "say":
        Path(step[1]).touch()
    elif step[0] == "await":
        wait_for(step[1])
    else:
        return speak(step)
    return None


def main() -> None:
    """Take the steps of the first task of this run."""
    assignment = json.loads(Path(os.environ["CALLBOARD_ASSIGNMENT"]).read_text())
    payload = assignment["claims"][0]["work"]
    told = Path(payload["told"])
    with told.open("a") as stream:
        handles = [one["handle"] for one in assignment["claims"]]
        stream.write(json.dumps({"handles": handles, "assignment": assignment}) + "\n")
        for step in payload["script"]:
            answer = take(step)
            if answer is not None:
                stream.write(json.dumps(answer) + "\n")
                stream.flush()


if __name__ == "__main__":
    main()
