"""The demo's story on the page: as it happens, and played again; and room for what users try afterwards."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from fairlead.rig.arguments import KUBECTL_ENV
from support.browser import chromium, opened
from support.rig import programs

pytestmark = pytest.mark.slow

MAIN = Path(sys.executable).with_name("fairlead")
CHAPTERS = (
    "A cluster with 4 nodes comes up.",
    "examples/priorities.yaml arrives",
    "examples/split-gang.yaml arrives",
    "group-a is done and scaled to zero.",
    "Two more nodes join: the gang starts whole",
    "dies, and with it a member of the gang.",
    "Two more nodes join: room for pods of your own.",
    "The end: nothing is left to repair.",
)
# Notes, with each chapter that is shown, how many nodes and pods are shown then.
NOTE_CHAPTERS = """() => {
  window.seen = [];
  const story = document.querySelector('.story');
  const note = () => {
    const text = story.textContent;
    if (text && window.seen.at(-1)?.text !== text)
      window.seen.push({text, nodes: fairlead.board.nodes.size, pods: fairlead.board.pods.size});
  };
  new MutationObserver(note).observe(story, {childList: true, characterData: true, subtree: true});
  note();
}"""

RUN = """() => ['default/yours', 'default/mine'].every((workload) =>
  [...fairlead.board.pods.values()].filter(
    (pod) => pod.workload === workload && pod.state === 'running').length === 3)
"""


class Told:
    """A demo that runs, and what it has printed."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.lines: list[str] = []

    async def line(self, text: str) -> str:
        """Wait for the line with a text."""
        assert self.process.stdout is not None
        while True:
            line = (await asyncio.wait_for(self.process.stdout.readline(), 60)).decode()
            assert line, f"it never said {text!r}:\n{''.join(self.lines)}"
            self.lines.append(line)
            if text in line:
                return line


@asynccontextmanager
async def demo(*arguments: str) -> AsyncIterator[Told]:
    process = await asyncio.create_subprocess_exec(
        MAIN, "demo", *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        yield Told(process)
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGINT)
        await process.communicate()
        assert process.returncode == 0


@pytest.mark.parametrize("where", ["embedded", pytest.param("real", marks=pytest.mark.real)])
async def test_the_story_is_seen_as_it_happens_and_can_be_played_again(where: str) -> None:
    if where == "real":
        programs("kube-scheduler", "kwok")
    arguments = ["--stay", *(["--real"] if where == "real" else [])]
    async with chromium() as browser, demo(*arguments) as told:
        address = (await told.line("watch it in a browser")).split()[-1]
        async with opened(browser, address) as tab:
            await tab.page.wait_for_selector(".story", state="attached")
            await tab.page.evaluate(NOTE_CHAPTERS)
            await told.line("Ctrl-C ends it")
            await tab.shows(CHAPTERS[-1])
            seen = await tab.script("window.seen")
            # What takes no time is shown together; but it was shown while it happened, chapter by chapter.
            numbers = [number_of(one["text"]) for one in seen]
            assert numbers == sorted(set(numbers))
            assert len(numbers) >= 4
            nodes = [one["nodes"] for one in seen]
            assert nodes == sorted(nodes)
            assert nodes[-1] == 8
            assert nodes[0] < 8

            await tab.see("#/decisions?kinds=preempted,placed,node-lost,evicted")
            await tab.shows("Preempted by gang fairlead-priorities/group-a")
            await tab.shows("node lost")

            await tab.page.click("text=Replay")
            await tab.shows("Back to the present", "#player")
            await tab.see("#/map")
            await tab.page.evaluate(NOTE_CHAPTERS)
            await tab.page.select_option("#player select", "4")
            await tab.shows(CHAPTERS[-1])
            again = [number_of(one["text"]) for one in await tab.script("window.seen")]
            assert again == sorted(again)
            assert set(numbers) <= set(again)
            await tab.page.wait_for_function("() => !fairlead.player.plays")
            same = "(board) => JSON.stringify([...board.pods.keys()].sort())"
            assert await tab.script(f"({same})(fairlead.board) === ({same})(fairlead.present)")
            await tab.page.click("text=Back to the present")
            assert not await tab.script("fairlead.replaying")

            await yours(told, where)
            await tab.page.wait_for_function(RUN)
            assert tab.problems == []


def number_of(text: str) -> int:
    """Which chapter a text is."""
    return next(number for number, chapter in enumerate(CHAPTERS) if chapter in text)


async def yours(told: Told, where: str) -> None:
    """What the demo says to try, as it says it."""
    (kubectl,) = programs("kubectl")
    said = [line.partition(": ")[2] or line for line in told.lines if " kubectl --kubeconfig " in line]
    for line in said[-2:]:
        words = line.split("kubectl ", 1)[1].split()
        env = {**os.environ, **KUBECTL_ENV}
        done = await asyncio.to_thread(
            subprocess.run, [kubectl, *words], env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
