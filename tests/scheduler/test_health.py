"""What the port says: ready or not, and why not."""

from __future__ import annotations

import aiohttp

from fairlead.doors.health import serving


async def ask(checks: dict[str, str], path: str) -> tuple[int, str]:
    async with (
        serving("127.0.0.1:0", checks=lambda: checks, metrics=lambda: b"") as url,
        aiohttp.ClientSession() as client,
        client.get(url + path) as answer,
    ):
        return answer.status, await answer.text()


async def test_when_every_check_holds_it_is_just_ready():
    assert await ask({"session": "", "caches": ""}, "/readyz") == (200, "ok")


async def test_asked_for_more_it_names_the_checks():
    said = await ask({"session": "", "caches": ""}, "/readyz?verbose")
    assert said == (200, "[+]session ok\n[+]caches ok\nreadyz check passed\n")


async def test_a_check_that_fails_is_named_with_its_reason():
    code, text = await ask({"session": "", "caches": "not listed yet: pods"}, "/readyz")
    assert code == 503
    assert text == "[+]session ok\n[-]caches failed: not listed yet: pods\nreadyz check failed\n"


async def test_it_is_alive_though_not_ready():
    assert await ask({"session": "there is none"}, "/livez") == (200, "ok")
