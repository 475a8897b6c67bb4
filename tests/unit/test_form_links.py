"""Links to the spawn form: which start a server, which only pick, and which are no links of ours."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_hub.spawner.form import Link, ShowForm, read_link

FREE = {"profile": "gpu-other", "vram": "3 GiB", "group": "ml"}


@pytest.mark.parametrize(
    ("query", "link"),
    [
        pytest.param({"profile": ["gpu-4g"]}, Link({"profile": "gpu-4g"}, starts=True), id="starts"),
        pytest.param({"opt-profile": ["gpu-4g"]}, Link({"profile": "gpu-4g"}, starts=True), id="JupyterHub 5's prefix"),
        pytest.param({key: [value] for key, value in FREE.items()}, Link(FREE, starts=True), id="amount and group"),
        pytest.param(
            {"profile": ["o"], "profile-option-o--vram": ["1 GiB"]},
            Link({"profile": "o", "vram": "1 GiB"}, starts=True),
            id="the form's own field names",
        ),
        pytest.param({"profile": ["gpu-4g"], "preselect": ["1"]}, Link({"profile": "gpu-4g"}), id="only picks"),
        pytest.param({"profile": ["gpu-4g"], "preselect": ["yes"]}, Link({"profile": "gpu-4g"}), id="any yes"),
        pytest.param(
            {"profile": ["gpu-4g"], "preselect": ["0"]}, Link({"profile": "gpu-4g"}, starts=True), id="a plain no"
        ),
        pytest.param(
            {"opt-group": ["ml"], "opt-preselect": ["1"]}, Link({"group": "ml"}), id="only who pays"
        ),
        pytest.param({"vram": ["3 GiB"]}, Link({"vram": "3 GiB"}), id="an amount of no profile starts nothing"),
        pytest.param({"_xsrf": ["2|x"]}, Link(), id="a reload after a refusal"),
        pytest.param({"utm_source": ["mail"], "fbclid": ["x"]}, Link(), id="what a mailing adds"),
        pytest.param({}, Link(), id="nothing"),
    ],
)  # fmt: skip
def test_a_query_is_read(query, link):
    assert read_link(query) == link


_values = st.one_of(st.text(), st.none(), st.lists(st.one_of(st.text(), st.none(), st.binary())))
_names = st.one_of(st.text(), st.sampled_from(["profile", "opt-profile", "vram", "group", "opt-cores"]))


@given(st.dictionaries(_names, _values), st.sampled_from(["preselect", "opt-preselect"]))
def test_a_link_that_only_picks_never_starts_a_server(query, key):
    read_link(query)
    assert not read_link({**query, key: ["1"]}).starts


def test_showing_the_form_is_no_error_that_a_hub_would_show():
    shown = ShowForm()
    assert (str(shown), shown.jupyterhub_message, shown.jupyterhub_html_message) == ("", "", "")
