"""What is said in other languages: nothing is missing, nothing is filled in wrongly, and everybody hears their own."""

from __future__ import annotations

import ast
import asyncio
import logging
import string
from collections.abc import Callable
from pathlib import Path

import pytest
from babel.messages.catalog import Message
from hypothesis import given
from hypothesis import strategies as st

from hami_hub.core.language import (
    Said,
    Sentence,
    capital,
    chained,
    count,
    in_english,
    later,
    say,
    speaking,
)
from hami_hub.core.ledger import Ledger
from hami_hub.core.messages import (
    describe_card,
    describe_placement,
    describe_request,
    in_line,
    promised_to_others,
    waited_in_vain,
    why_no_room,
)
from hami_hub.core.placement import NoRoom, place
from hami_hub.core.profiles import ChoiceError, choose, default_profiles
from hami_hub.core.slices import Placement, SliceId, SliceRequest
from hami_hub.core.units import AmountError, Mib, parse_vram
from hami_hub.languages import best_language, html_lang, languages, read_catalog, translator
from tests.catalogs import KEYWORDS, PACKAGE, said, untranslated

from .strategies import cards, placements, requests

OTHERS = [language for language in languages() if language != "en"]


def test_there_are_japanese_and_chinese() -> None:
    assert languages()[0] == "en"
    assert {"ja", "zh_Hans"} <= set(languages())


# --- the catalogs ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", OTHERS)
def test_a_catalog_has_all_that_is_said_and_nothing_else(language: str) -> None:
    in_code = {message.id for message in said()}
    in_catalog = {message.id for message in read_catalog(language)}
    assert in_catalog - in_code == set(), "Run `make catalogs`."
    assert in_code - in_catalog == set(), "Run `make catalogs`, and write what the new sentences are."
    assert [message.id for message in untranslated(read_catalog(language))] == []


def _messages(language: str) -> list[Message]:
    return [message for message in read_catalog(language) if message.id]


def _names(template: str) -> set[str]:
    """The {names} in it, which are plain names without a format."""
    found = set()
    for _, name, spec, conversion in string.Formatter().parse(template):
        if name is not None:
            assert name.isidentifier()
            assert not spec
            assert not conversion
            found.add(name)
    return found


def _english_and_others(message: Message) -> tuple[list[str], list[str]]:
    english = [message.id] if isinstance(message.id, str) else list(message.id)
    return english, [message.string] if isinstance(message.string, str) else list(message.string)


@pytest.mark.parametrize("language", OTHERS)
def test_a_translation_is_filled_in_with_what_the_english_is(language: str) -> None:
    for message in _messages(language):
        english, others = _english_and_others(message)
        values = set.union(*map(_names, english))
        for other in others:
            # "the 1 card" may do without its number, as it may in English
            assert values - {"n"} <= _names(other) <= values, message.id
            assert _names(other) == values or len(others) > 1, message.id


@pytest.mark.parametrize("language", ["ja", "zh_Hans"])
def test_a_sentence_ends_as_one_where_the_english_does(language: str) -> None:
    for message in _messages(language):
        english, others = _english_and_others(message)
        for other in others:
            assert english[0].endswith((".", "?")) == other.endswith(("。", "？")), message.id


@pytest.mark.parametrize("language", OTHERS)
@given(data=st.data())
def test_every_sentence_of_every_language_takes_any_value(language: str, data: st.DataObject) -> None:
    message = data.draw(st.sampled_from(_messages(language)))
    english, _ = _english_and_others(message)
    names = set.union(*map(_names, english)) - {"n"}
    values = {
        name: data.draw(st.text(max_size=8) | st.integers() | st.sampled_from(["{x}", "%s", "<b>"])) for name in names
    }
    number = data.draw(st.integers(0, 1000))
    with speaking(translator(language)):
        text = count(number, *english, **values) if len(english) == 2 else say(english[0], n=number, **values)
    assert isinstance(text, Said)
    for name, value in values.items():
        assert str(value) in text, name
    assert in_english(text) == (
        count(number, *english, **values) if len(english) == 2 else say(english[0], n=number, **values)
    )


def test_a_template_is_written_where_it_is_said() -> None:
    """Else no catalog could have it: a literal, or an entry of a table that `later` or `either` has marked."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for call in ast.walk(ast.parse(path.read_text())):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in KEYWORDS:
                for number in KEYWORDS[call.func.id] or (1,):
                    if number <= len(call.args):
                        template = call.args[number - 1]
                        assert not isinstance(template, (ast.JoinedStr, ast.BinOp, ast.Call)), (
                            f"{path.relative_to(PACKAGE)}:{template.lineno}: write the template as a literal"
                        )


# --- which language a person reads ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "language"),
    [
        (None, "en"),
        ("", "en"),
        ("*", "en"),
        ("ja", "ja"),
        ("ja-JP", "ja"),
        ("JA-jp", "ja"),
        ("ja,en-US;q=0.7,en;q=0.3", "ja"),
        ("en-US,en;q=0.5,ja;q=0.3", "en"),
        ("en;q=0.3, ja;q=0.9", "ja"),
        ("ja;q=0, en", "en"),
        ("fr-FR, zh-CN;q=0.5, en;q=0.1", "zh_Hans"),
        ("zh", "zh_Hans"),
        ("zh-CN", "zh_Hans"),
        ("zh-Hans", "zh_Hans"),
        ("zh-Hans-SG", "zh_Hans"),
        ("zh-SG", "zh_Hans"),
        ("zh-TW", "en"),
        ("zh-Hant", "en"),
        ("zh-HK, zh;q=0.9, ja;q=0.8", "ja"),
        ("zh-TW,zh;q=0.9,en-US;q=0.8,en;q=0.7", "en"),
        ("zh, zh-TW;q=0.9", "zh_Hans"),
        ("xx, ja", "ja"),
        ("ja;q=high, zh", "zh_Hans"),
        ("\x00;;,,=;q=1, ja", "ja"),
    ],
)
def test_the_first_language_of_the_readers_that_there_is(header: str | None, language: str) -> None:
    assert best_language(header) == language


@given(st.text(max_size=600) | st.from_regex(r"([a-zA-Z]{1,3}(-[A-Za-z0-9]{1,8}){0,3}(;q=[0-9.]{1,5})?, ?){1,5}"))
def test_whatever_a_browser_says_it_is_answered_in_some_language(header: str) -> None:
    assert best_language(header) in languages()


def test_a_language_that_there_is_not_is_english() -> None:
    assert translator("en") is None
    assert translator("tlh") is None
    assert translator("../../../etc") is None
    assert html_lang("zh_Hans") == "zh-Hans"


# --- saying ---------------------------------------------------------------------------------------------------------


def test_what_a_catalog_lacks_is_said_in_english_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), speaking(translator("ja")):
        for number in (1, 2):
            assert say("No {bird} ever said this.", bird="owl") == "No owl ever said this."
            assert (
                count(number, "{n} unheard-of owl", "{n} unheard-of owls")
                == f"{number} unheard-of owl{'s'[: number - 1]}"
            )
    assert [record.getMessage() for record in caplog.records] == [
        "The language ja has no words for 'No {bird} ever said this.'.",
        "The language ja has no words for '{n} unheard-of owl'.",
    ]


def test_nothing_said_is_nothing() -> None:
    with speaking(translator("ja")):
        assert say("") == ""
        assert chained(later("{a} and {b}"), ()) == ""


def test_a_sentence_knows_what_it_is_in_english_through_all_that_it_passes() -> None:
    with speaking(translator("ja")):
        why = why_no_room(_no_room(SliceRequest(vram=Mib(16384))))
        told = in_line(2, why)
        error = ChoiceError(told, reason="x")
        kept = Sentence("{a} {b}", {"a": Sentence("Pick another profile."), "b": 7})
        assert str(kept) == "別のプロファイルを選んでください。7"
    assert told.startswith("順番待ちの 2 番目です。")
    assert in_english(str(error)) == (
        "You are 2nd in line. 16 GiB can never fit here: the Tesla T4 has 15 GiB in all, 16 GiB are asked for. "
        "Pick 15 GiB or less, or a profile without a GPU."
    )
    assert in_english(capital(told)) == in_english(told)
    assert str(kept) == "Pick another profile. 7"
    assert in_english("as it is") == "as it is"


def _no_room(request: SliceRequest) -> NoRoom:
    from .test_messages import T4, state

    verdict = place(request, [state(card=T4)])
    assert isinstance(verdict, NoRoom)
    return verdict


async def test_people_who_wait_at_once_are_each_told_in_their_own() -> None:
    turn = asyncio.Event()

    async def one(language: str) -> list[str]:
        with speaking(translator(language)):
            first = in_line(1, "")
            await turn.wait()
            return [first, in_line(1, ""), await asyncio.ensure_future(later_in_line())]

    async def later_in_line() -> str:
        await asyncio.sleep(0)
        return in_line(1, "")

    async def release() -> None:
        turn.set()

    english, japanese, chinese, _ = await asyncio.gather(one("en"), one("ja"), one("zh_Hans"), release())
    assert english == ["You are 1st in line. "] * 3
    assert japanese == ["順番待ちの 1 番目です。"] * 3
    assert chinese == ["您排在第 1 位。"] * 3
    assert in_line(1, "") == "You are 1st in line. "


def _everything(on: list, request: SliceRequest, placement: Placement) -> list[str]:  # type: ignore[type-arg]
    """All that is said about one request on those cards."""
    ledger = Ledger(on)
    ledger.reserve(SliceId("other/"), request)
    said = [describe_card(state) for state in ledger.states()]
    said += [
        describe_request(request),
        describe_placement(placement, ledger.states()),
        promised_to_others(request.cards),
    ]
    verdict = ledger.try_place(request)
    if isinstance(verdict, NoRoom):
        said += [
            in_line(request.cards, why_no_room(verdict)),
            waited_in_vain(request, 600, why_no_room(verdict, in_cluster=True)),
        ]
    return said


@pytest.mark.parametrize("language", OTHERS)
@given(on=cards(cordons=True), request=requests(), placement=placements)
def test_all_about_room_can_be_said_in_every_language(
    language: str,
    on: list,
    request: SliceRequest,
    placement: Placement,  # type: ignore[type-arg]
) -> None:
    english = _everything(on, request, placement)
    with speaking(translator(language)):
        others = _everything(on, request, placement)
    assert [in_english(text) for text in others] == english
    assert "{" not in "".join(others)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (lambda: parse_vram("4 GB"), AmountError),
        (lambda: choose(default_profiles(), {"profile": "nope"}), ChoiceError),
        (lambda: choose(default_profiles(), {"profile": "gpu-other", "vram": "1 MiB"}), ChoiceError),
    ],
)
def test_a_refusal_is_in_the_readers_language_and_its_english_is_known(
    wrong: Callable[[], object], error: type[Exception]
) -> None:
    with pytest.raises(error) as english:
        wrong()
    with speaking(translator("zh_Hans")), pytest.raises(error) as chinese:
        wrong()
    assert in_english(str(chinese.value)) == str(english.value)
    assert str(chinese.value).endswith("。")


def test_the_catalogs_are_where_a_package_has_them() -> None:
    for language in OTHERS:
        assert (Path(PACKAGE) / "locale" / language / "LC_MESSAGES" / "hami_hub.po").is_file()
    assert not list(PACKAGE.rglob("*.mo"))
