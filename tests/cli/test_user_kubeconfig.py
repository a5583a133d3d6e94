"""The context that ``fairlead dev up`` adds to a user's kubeconfig, and that ``dev down`` removes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairlead.cli.user_kubeconfig import add_context, check_addable, file_to_change, remove_context
from fairlead.client.config import load
from fairlead.errors import BadInput

USERS = """\
# mine
apiVersion: v1
kind: Config
preferences: {}
current-context: production
clusters:
- name: production
  cluster: &c
    server: https://10.0.0.1
    insecure-skip-tls-verify: true
    extensions:
    - {name: other, extension: {last-update: 2024-01-01T00:00:00Z, number: 0123}}
- {name: staging, cluster: *c}
users:
- name: me
  user:
    token: |
      several
      lines
contexts:
- name: production
  context: {cluster: production, user: me}
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    return written(tmp_path / "own", name="fairlead", server="https://127.0.0.1:6443")


@pytest.fixture
def users(tmp_path: Path) -> Path:
    file = tmp_path / "config"
    file.write_text(USERS)
    file.chmod(0o640)
    return file


def written(file: Path, *, name: str, server: str) -> Path:
    config = {
        "clusters": [{"name": name, "cluster": {"server": server}}],
        "users": [{"name": "admin", "user": {"token": "secret"}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": "admin"}}],
        "current-context": name,
    }
    file.write_text(yaml.safe_dump(config))
    return file


def read(file: Path) -> dict[str, Any]:
    config: dict[str, Any] = yaml.safe_load(file.read_text())
    return config


def contexts(file: Path) -> list[str]:
    return [one["name"] for one in read(file)["contexts"]]


def test_the_context_works_and_the_current_one_stays(users: Path, own: Path) -> None:
    add_context(users, own)

    assert load(users).context == "production"
    ours = load(users, context="fairlead")
    assert (ours.server.url, ours.user.token) == ("https://127.0.0.1:6443", "secret")


def test_every_value_of_other_entries_is_as_it_was_written(users: Path, own: Path) -> None:
    add_context(users, own)

    after = users.read_text()
    for value in ("2024-01-01T00:00:00Z", "number: 0123", "insecure-skip-tls-verify: true", "several\n"):
        assert value in after
    remove_context(users)
    assert read(users) == yaml.safe_load(USERS)


def test_permissions_stay_and_nothing_is_left_beside_it(users: Path, own: Path) -> None:
    add_context(users, own)

    assert users.stat().st_mode & 0o777 == 0o640
    assert sorted(path.name for path in users.parent.iterdir()) == ["config", "own"]


def test_a_new_file_is_its_users_only(tmp_path: Path, own: Path) -> None:
    file = tmp_path / ".kube" / "config"
    add_context(file, own)

    assert file.stat().st_mode & 0o777 == 0o600
    assert "current-context" not in read(file)
    assert contexts(file) == ["fairlead"]


def test_a_link_stays_a_link(users: Path, own: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(users)
    add_context(link, own)

    assert link.is_symlink()
    assert contexts(users) == ["production", "fairlead"]


def test_it_is_switched_to_only_when_asked_and_then_switched_back(users: Path, own: Path) -> None:
    before = add_context(users, own, use=True)

    assert (before, read(users)["current-context"]) == ("production", "fairlead")
    remove_context(users, back_to=before)
    assert read(users)["current-context"] == "production"


def test_a_current_context_that_is_removed_is_no_longer_current(users: Path, own: Path) -> None:
    add_context(users, own, use=True)
    remove_context(users)

    assert read(users)["current-context"] == ""


def test_adding_again_brings_it_up_to_date(users: Path, own: Path, tmp_path: Path) -> None:
    add_context(users, own)
    add_context(users, written(tmp_path / "own", name="fairlead", server="https://127.0.0.1:7000"))

    assert contexts(users) == ["production", "fairlead"]
    assert load(users, context="fairlead").server.url == "https://127.0.0.1:7000"


def test_nothing_is_written_when_nothing_differs(users: Path, own: Path) -> None:
    add_context(users, own)
    before = users.stat()
    add_context(users, own)

    assert users.stat().st_ino == before.st_ino


@pytest.mark.parametrize("key", ["clusters", "users", "contexts"])
def test_an_entry_of_that_name_that_is_not_ours_is_refused_and_never_removed(
    key: str, tmp_path: Path, own: Path
) -> None:
    file = tmp_path / "config"
    text = yaml.safe_dump({key: [{"name": "fairlead", key[:-1]: {"a": "b"}}]})
    file.write_text(text)

    for refused in (lambda: check_addable(file), lambda: add_context(file, own)):
        with pytest.raises(BadInput, match=f"has a {key[:-1]} 'fairlead' that is not from"):
            refused()
    assert not remove_context(file)
    assert yaml.safe_load(file.read_text())[key] == yaml.safe_load(text)[key]


@pytest.mark.parametrize("text", ["[1, 2]", "a: [", "contexts: {a: b}", "users: [a]", "\x00"])
def test_what_is_no_kubeconfig_is_left_as_it_is(text: str, tmp_path: Path, own: Path) -> None:
    file = tmp_path / "config"
    file.write_text(text)

    with pytest.raises(BadInput, match=f"{file}: is no kubeconfig"):
        add_context(file, own)
    assert file.read_text() == text


def test_a_file_that_another_program_is_changing_is_left_as_it_is(
    users: Path, own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlead.cli.user_kubeconfig._LOCK_S", 0.1)
    lock = users.with_name("config.lock")
    lock.touch()

    with pytest.raises(BadInput, match=f"remove {lock} if none is"):
        add_context(users, own)
    assert users.read_text() == USERS


def test_a_write_that_fails_leaves_the_file_as_it_is(
    users: Path, own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        add_context(users, own)
    assert users.read_text() == USERS
    assert sorted(path.name for path in users.parent.iterdir()) == ["config", "own"]


def test_the_file_is_the_one_that_kubectl_would_write_to(tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.touch()
    several = os.pathsep.join(map(str, (tmp_path / "a", there, tmp_path / "b")))
    none = os.pathsep.join(map(str, (tmp_path / "a", tmp_path / "b")))

    assert file_to_change({}, tmp_path) == tmp_path / ".kube" / "config"
    assert file_to_change({"KUBECONFIG": several}, tmp_path) == there
    assert file_to_change({"KUBECONFIG": none}, tmp_path) == tmp_path / "b"
