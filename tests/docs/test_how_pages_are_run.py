"""What the tests of pages notice: a page that would let its reader down fails."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from support.page_runner import Reader
from support.pages import Page, read_page


def page_of(folder: Path, *blocks: str) -> Page:
    text = "# A page\n\n" + "\n".join(f"```console\n{block}```\n" for block in blocks)
    (folder / "page.md").write_text(text)
    return read_page(folder / "page.md")


def work(page: Page, folder: Path, **env: str) -> None:
    reader = Reader(page, folder / "run", env)
    try:
        reader.work_through()
    finally:
        reader.close()


def test_a_command_finds_what_the_one_before_it_left(tmp_path: Path) -> None:
    page = page_of(
        tmp_path,
        "$ export GREETING=hello\n$ mkdir -p deep && cd deep\n",
        "$ cat > file <<EOF\nfrom\nhere\nEOF\n$ echo $GREETING $(cat file)\nhello from here\n",
        "$ basename $PWD\ndeep\n",
    )
    work(page, tmp_path)


def test_output_that_is_not_printed_fails_the_page(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="line 2 of what is shown was not printed there: 'three'"):
        work(page_of(tmp_path, "$ printf 'one\\ntwo\\n'\none\nthree\n"), tmp_path)


def test_output_that_is_not_shown_fails_the_page(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="more was printed than is shown"):
        work(page_of(tmp_path, "$ printf 'one\\ntwo\\n'\none\n"), tmp_path)


def test_an_error_message_counts_as_output(tmp_path: Path) -> None:
    work(page_of(tmp_path, "$ ls nowhere   # ends with 2\nls: …nowhere…\n"), tmp_path)


def test_a_command_that_fails_fails_the_page(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="ended with 3"):
        work(page_of(tmp_path, "$ (exit 3)\n"), tmp_path)


def test_until_a_page_names_its_cluster_its_commands_have_none(tmp_path: Path) -> None:
    cluster = tmp_path / "kubeconfig"
    cluster.write_text("a cluster\n")
    named = "$ export KUBECONFIG=$(fairlead dev status -o kubeconfig)\n"
    look = "$ cat $KUBECONFIG\na cluster\n"
    work(page_of(tmp_path, named, look), tmp_path, KUBECONFIG=str(cluster))
    (tmp_path / "run").rename(tmp_path / "before")
    with pytest.raises(AssertionError, match="no-cluster-is-named-yet"):
        work(page_of(tmp_path, look, named), tmp_path, KUBECONFIG=str(cluster))


def test_a_flag_of_dev_up_that_there_is_not_fails_the_page(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="--nods"):
        work(page_of(tmp_path, "$ fairlead dev up --nods 4\n"), tmp_path)


def test_what_a_page_leaves_running_is_ended(tmp_path: Path) -> None:
    left = "$ (echo $BASHPID > ../pid; exec sleep 600) &\n$ while [ ! -s ../pid ]; do sleep 0.05; done\n"
    work(page_of(tmp_path, left), tmp_path)
    process = Path("/proc") / (tmp_path / "run" / "home" / "pid").read_text().strip()
    deadline = time.monotonic() + 10
    while process.exists() and "State:\tZ" not in (process / "status").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_page_has_one_cluster(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text(
        "<!-- on: spot -->\n```console\n$ true\n```\n<!-- on: burst -->\n```console\n$ true\n```\n"
    )
    with pytest.raises(AssertionError, match="runs on one cluster, not on spot, burst"):
        _ = read_page(tmp_path / "page.md").cluster
