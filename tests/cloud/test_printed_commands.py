"""Commands that the doctor prints are meant to be pasted: names from elsewhere are words, nothing more."""

from __future__ import annotations

import shlex

from fairlead.cloud.doctor.autoscaler import CaSettings
from fairlead.cloud.doctor.findings import TagChange
from fairlead.cloud.doctor.subjects import tag_command
from fairlead.cloud.shell import word

HOSTILE = "web; rm -rf ~\x1b[2J\n$(id) `id` 'x'"


def test_a_hostile_name_is_one_word_without_control_characters() -> None:
    assert shlex.split(word(HOSTILE)) == ["web; rm -rf ~[2J$(id) `id` 'x'"]


def test_names_in_commands_are_quoted() -> None:
    for command in (
        tag_command([TagChange(HOSTILE, "key", "value")], HOSTILE),
        CaSettings(name=HOSTILE, namespace=HOSTILE).restart,
    ):
        assert command.isprintable()
        assert len(shlex.split(command)) <= 7
