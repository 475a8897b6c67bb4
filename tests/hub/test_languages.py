"""Everybody is told in the language that their browser asks for: what goes on while they wait, and why not."""

from __future__ import annotations

import html
from typing import Any

import httpx
import jupyterhub
import pytest
from hub_process import Hub
from person import Person
from shapes import IN_ONE_SHAPE

from tests.hub_client import Failed

JAPANESE = "ja,en-US;q=0.7,en;q=0.3"
CHINESE = "zh-CN,zh;q=0.9,en;q=0.8"
FULL = {
    "en": "You are {place} in line. 4 GiB · 25 % is not free now: one server has all of the Tesla T4. "
    "Wait until a server stops, or pick another profile.",
    JAPANESE: "順番待ちの {place} 番目です。「4 GiB · 25 %」は今は空いていません"
    "（Tesla T4 は 1 台のサーバーが占有中）。"
    "いずれかのサーバーが停止するまで待つか、別のプロファイルを選んでください。",
    CHINESE: "您排在第 {place} 位。“4 GiB · 25 %”目前没有空闲：Tesla T4 已被一个服务器独占。"
    "请等待有服务器停止，或选择其他配置。",
}


def ask(hub: Hub, user: str, options: Any, language: str) -> httpx.Response:
    """A start by somebody who reads `language`."""
    hub.api.post(f"/users/{user}")
    body = {"user_options": options} if jupyterhub.version_info[0] >= 6 else options
    return hub.api.post(hub.place(user, ""), json=body, headers={"Accept-Language": language})


def refused(hub: Hub, user: str, options: Any, language: str) -> str:
    """What somebody reads whose start is refused, at once or, on a busy machine, a moment later."""
    answer = ask(hub, user, options, language)
    if answer.status_code >= 400:
        return str(answer.json()["message"])
    with pytest.raises(Failed) as failure:
        hub.until_started(user)
    return str(failure.value)


def until_told(hub: Hub, user: str, words: str) -> None:
    """Return when those who look at the progress are told exactly that."""
    said = []
    for event in hub.progress(user):
        said.append(event["message"])
        if said[-1] == words:
            return
    raise AssertionError(said)


@IN_ONE_SHAPE
def test_people_who_wait_at_once_each_read_their_own_language(hub: Hub) -> None:
    hub.start("alice", {"profile": "whole"})
    for place, (user, language) in enumerate([("bob", JAPANESE), ("carol", CHINESE), ("dora", "en")], 1):
        assert ask(hub, user, {"profile": "small"}, language).status_code == 202
        until_told(hub, user, FULL[language].format(place="3rd" if language == "en" else place))
    # What changes is told them from within somebody else's stop.
    hub.stop("bob")
    until_told(hub, "carol", FULL[CHINESE].format(place=1))
    # Of a server that is ready no more is told than that, so they have to look before.
    looking = {user: hub.progress(user) for user in ("carol", "dora")}
    for progress in looking.values():
        next(progress)
    hub.stop("alice")
    said = {user: [event["message"] for event in progress] for user, progress in looking.items()}
    assert "已分配切片：Tesla T4 的 4 GiB · 25 %。您的服务器正在启动。" in said["carol"]
    assert "You have 4 GiB · 25 % of a Tesla T4. Your server is starting." in said["dora"]


UNKNOWN = pytest.mark.parametrize(
    ("language", "words"),
    [
        (JAPANESE, 'プロファイル "nope" はありません。選べるプロファイル: cpu, small, half, whole, other。'),
        (CHINESE, '没有配置 "nope"。可选的有：cpu, small, half, whole, other。'),
        ("fr", 'There is no profile "nope". There are: cpu, small, half, whole, other.'),
    ],
)


@IN_ONE_SHAPE
@UNKNOWN
def test_a_refusal_is_in_the_readers_language_and_in_english_in_the_log(hub: Hub, language: str, words: str) -> None:
    before = len(hub.log.read_bytes())
    assert refused(hub, "alice", {"profile": "nope"}, language) == words
    logged = hub.log.read_bytes()[before:].decode()
    assert 'There is no profile "nope". There are: cpu, small, half, whole, other.' in logged
    assert language == "fr" or words not in logged


@IN_ONE_SHAPE
def test_the_form_is_in_the_readers_language(hub: Hub) -> None:
    shown = Person(hub, "bob", JAPANESE).open("/hub/spawn")
    assert 'lang="ja"' in shown
    assert "Tesla T4、15 GiB、すべて空き" in shown
    assert "すぐに開始" in shown


@UNKNOWN
@pytest.mark.parametrize("way", ["form", "link"])
def test_a_form_that_is_shown_again_says_why_in_the_readers_language(
    patient_hub: Hub, way: str, language: str, words: str
) -> None:
    before = len(patient_hub.log.read_bytes())
    person = Person(patient_hub, "bob", language)
    if way == "form":
        page = person.send("/hub/spawn", {"profile": "nope"})
    else:
        page = person.open("/hub/spawn?opt-profile=nope")
    shown = html.unescape(page.partition('<p class="spawn-error-msg')[2].partition("</p>")[0])
    assert shown.endswith(f"Error: {words}")
    logged = patient_hub.log.read_bytes()[before:].decode()
    assert 'There is no profile "nope". There are: cpu, small, half, whole, other.' in logged
    assert language == "fr" or words not in logged
