"""Encodes in many lives, each ended by SIGKILL.

Run as `python -m tests.encoding.killed_encoding OUT MODE`.

An event is whatever changes the disk: a folder made, a block written, a file flushed,
named or removed. MODE says which lives there are:

    each     for every event: a folder of its own, killed just before or in it, then finished
    chain    one folder, killed after a random number of events again and again until it is done

A life is a fork of this process, which has imported everything.
"""

import os
import random
import signal
import sys
import traceback
from pathlib import Path

from samtone_tf.encoding.encode import encode_corpus
from samtone_tf.encoding.shard import ShardWriter
from tests.encoding import letters

TEXTS = {**letters.TEXTS, **letters.many(15)}
SHARD_SIZE = 12


class Events:
    """Counts events, and dies at one of them."""

    def __init__(self, last: int):
        self.last, self.count = last, 0
        for owner, name in [
            (os, "replace"),
            (os, "fsync"),
            (os, "mkdir"),
            (os, "unlink"),
            (ShardWriter, "add"),
        ]:
            setattr(owner, name, self.counted(getattr(owner, name)))

    def counted(self, function):
        def call(*arguments, **keywords):
            self.happen()
            result = function(*arguments, **keywords)
            if function.__name__ == "add":
                self.half_written(arguments[0])
            return result

        return call

    def happen(self):
        if self.count == self.last:
            os.kill(os.getpid(), signal.SIGKILL)
        self.count += 1

    def half_written(self, writer):
        """One more moment: the disk has a part of what was added."""
        if self.count == self.last:
            for file in writer._files:
                file.flush()
                os.truncate(file.name, os.path.getsize(file.name) * 2 // 3)
        self.happen()


def live(out: Path, last: int) -> bool:
    """One life; whether it came to its end."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            Events(last)
            encode_corpus(letters.encoder(), TEXTS, out, dtype="int8", shard_size=SHARD_SIZE)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code not in (0, -signal.SIGKILL):
        sys.exit(f"a life ended with {code}")
    return code == 0


def main(out: str, mode: str) -> None:
    """Prints how many lives were ended."""
    top, kills, draw = Path(out), 0, random.Random(7)
    if mode == "each":
        while not live(top / f"{kills}", kills):
            if not live(top / f"{kills}", sys.maxsize):
                sys.exit("killed by nobody")
            kills += 1
    else:
        while not live(top / "chain", draw.randrange(5, 45)):
            kills += 1
    print(kills)


if __name__ == "__main__":
    main(*sys.argv[1:])
