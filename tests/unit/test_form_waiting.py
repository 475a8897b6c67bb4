"""What a waiting page is made from: the news of a start, and the words around it."""

from __future__ import annotations

import asyncio
import json

from hami_hub.core.language import speaking
from hami_hub.spawner.form import waiting_view
from hami_hub.spawner.news import WAITING, News


def test_before_any_news_a_start_is_just_starting():
    for news in (None, News()):
        view = waiting_view(news)
        assert (view.state, view.message, view.position, view.progress) == ("starting", "", 0, 0)
        assert view.headings[view.state] == "Your server is starting"


def test_a_wait_is_shown_with_its_place_and_what_frees_next():
    news = News()
    news.since -= 90
    news.tell(10, "You are 3rd in line.", state=WAITING, position=3, frees_at=2000.0)
    view = waiting_view(news)
    assert (view.state, view.position, view.frees_at, view.message) == (WAITING, 3, 2000.0, "You are 3rd in line.")
    assert view.headings[view.state] == "Waiting for a slice"
    assert view.seconds >= 90


def test_the_newest_message_counts():
    news = News()
    news.tell(10, "You are 1st in line.", state=WAITING, position=1)
    news.tell(50, "You have 4 GiB of a Tesla T4. Your server is starting.")
    view = waiting_view(news)
    assert (view.state, view.position, view.progress) == ("starting", 0, 50)


async def test_everybody_who_follows_hears_all_and_the_facts_with_it():
    news = News()
    news.tell(10, "one", state=WAITING, position=2)

    async def hear() -> list[dict]:
        return [event async for event in news.follow()]

    early = asyncio.ensure_future(hear())
    await asyncio.sleep(0)
    news.tell(50, "two")
    news.close()
    late = await hear()
    assert await early == late
    assert [event["message"] for event in late] == ["one", "two"]
    assert late[0]["hami"] == {"state": "waiting", "position": 2, "frees_at": None}
    json.dumps(late)


def test_the_words_are_in_the_readers_language():
    class Loud:
        def gettext(self, message: str) -> str:
            return message.upper()

        def ngettext(self, one: str, many: str, n: int) -> str:
            return (one if n == 1 else many).upper()

    with speaking(Loud()):
        view = waiting_view(News(), "zh_Hans")
    assert view.language == "zh-Hans"
    assert view.headings["waiting"] == "WAITING FOR A SLICE"
    assert json.loads(view.script)["words"]["cancel"] == "CANCEL"
