"""The page of a diagnosis: whole, small, and safe with any text."""

import re
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from hardzero.diagnostics import Diagnosis, Finding
from hardzero.diagnostics.chart import curves
from hardzero.diagnostics.page import render, render_fragment


def layer(name, n_classes=3):
    """Return a row of the table of activations."""
    return {
        "name": name,
        "function": "relu",
        "units": 100,
        "examples": 3000,
        "zeros": 0.5,
        "zeros_low": 0.4,
        "zeros_high": 0.6,
        "dead": 3,
        "silent_examples": 0,
        "axis_is_sure": True,
        "zeros_by_class": {str(i): i / n_classes for i in range(n_classes)},
    }


def diagnosis(name="1", n_layers=2):
    """Return a diagnosis with one finding of each severity."""
    findings = tuple(
        Finding("code", severity, name, f"about {name}", (name,), name, name, (name,))
        for severity in ("serious", "warning", "note")
    )
    layers = tuple(layer(name) for _ in range(n_layers))
    return Diagnosis(
        findings, layers, {"n_examples": 3000, "loss": 0.123456, "x": None}
    )


class Balance(HTMLParser):
    """Check that elements are closed in the order in which they were opened."""

    def __init__(self):
        super().__init__()
        self.open = []
        self.seen = []

    def handle_starttag(self, tag, attrs):
        """Remember an element."""
        self.seen.append((tag, dict(attrs)))
        if tag not in {"meta", "br", "rect", "path"}:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        """Remember an element without content."""
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        """Close the last one."""
        assert self.open.pop() == tag


def test_a_page_is_whole_and_needs_nothing_else():
    """Elements are closed; nothing is fetched; the JSON inside is the diagnosis."""
    found = diagnosis()
    text = render(found)
    parser = Balance()
    parser.feed(text)
    assert parser.open == []
    assert text.startswith("<!DOCTYPE html>")
    assert not re.search(r"https?://|src=|@import|url\(", text)
    data = text.split('id="diagnosis">')[1].split("</script>")[0]
    assert Diagnosis.from_json(data).to_json() == found.to_json()
    for word in (
        "Not healthy",
        "serious",
        "warning",
        "note",
        "50.0%",
        "0.1235",
        "Remedy",
    ):
        assert word in text


def test_names_from_models_cannot_break_out():
    """Layer names are shown as text, whatever they hold."""
    evil = "</script><script>alert(1)</script><b onmouseover=x>&\"'"
    text = render(diagnosis(evil))
    parser = Balance()
    parser.feed(text)
    assert parser.open == []
    scripts = [attrs for tag, attrs in parser.seen if tag == "script"]
    assert scripts == [{"type": "application/json", "id": "diagnosis"}]
    assert not any(tag == "b" for tag, _ in parser.seen)


@pytest.mark.parametrize("n_layers", [0, 1, 2000])
def test_a_page_stays_small(n_layers):
    """At most 300 kB for thousands of layers; what is left out is said."""
    text = render(diagnosis("encoder.layers.11.feed_forward.activation", n_layers))
    assert len(text.encode()) <= 300_000
    assert ("more places are not shown" in text) == (n_layers > 200)


def test_a_healthy_network_has_a_short_page():
    """Nothing but the verdict and the notes on method."""
    text = render_fragment(Diagnosis(()))
    assert "<h1>Healthy</h1>" in text
    assert "Activations" not in text
    assert "<h2>Findings" not in text
    assert Diagnosis(())._repr_html_() == text


def whole(text):
    """Return the elements of a page that is well-formed and small."""
    assert len(text.encode()) <= 300_000
    parser = Balance()
    parser.feed(text)
    assert parser.open == []
    return parser.seen


@pytest.mark.parametrize("letter", ["a", "'", "é", "\x00", "\udc80", "\U0001f600"])
def test_hundreds_of_findings_with_long_names_stay_small(letter):
    """The most serious are shown, and how many more there are; also if each letter
    needs many bytes.
    """
    names = [f"{i:03}{letter * 1000}" for i in range(500)]
    findings = tuple(
        Finding(
            "dead-units", "serious", name, f"about {name}", (name,) * 20, name, name
        )
        for name in names
    )
    labels = {f"{letter * 1000}{i}": 0.5 for i in range(40)}
    layers = tuple({**layer(name), "zeros_by_class": labels} for name in names)
    facts = {"n_examples": 9} | {name: name for name in names}
    text = render(Diagnosis(findings, layers, facts))
    cards = [attrs for _, attrs in whole(text) if "finding" in attrs.get("class", "")]
    assert 10 <= len(cards) < 500
    assert f"{500 - len(cards)} more findings are not shown; to_json() has" in text
    assert "000" in text.split("<h3>")[1]


def test_long_names_are_shortened_in_the_middle():
    """Both ends are shown, and the whole under the pointer."""
    name = "encoder." + "x" * 400 + ".relu"
    elements = whole(render(diagnosis(name)))
    assert name in [attrs.get("title") for _, attrs in elements]
    shown = render(diagnosis(name)).split("<h3>")[1].split("</h3>")[0]
    assert re.search(r"about encoder\.x+…x+\.relu", shown)
    assert len(shown) < 200


def test_any_name_can_be_saved_and_printed(tmp_path):
    """A lone surrogate or a control character is written out, JSON keeps it."""
    found = diagnosis("a\udc80\x1b[31m\nb")
    found.save_html(tmp_path / "page.html")
    assert "a\\udc80\\x1b[31m\\nb" in (tmp_path / "page.html").read_text()
    assert "about a\\udc80\\x1b[31m\\nb\n" in str(found)
    found.to_json().encode()
    assert Diagnosis.from_json(found.to_json()).findings == found.findings


def test_place_and_step_of_a_finding_are_shown():
    """Where it is, and since when if that is known."""
    finding = Finding("code", "warning", "block.3", "s", (), "c", "r", when=1200)
    text = render_fragment(Diagnosis((finding,)))
    assert "<dt>Where</dt><dd>block.3</dd><dt>Since</dt><dd>step 1,200</dd>" in text
    assert "since    step 1,200" in str(Diagnosis((finding,)))
    assert "Since" not in render_fragment(diagnosis())


def test_a_page_says_that_the_json_is_too_long_for_it():
    """Nothing is dropped in silence."""
    text = render(diagnosis("1", 2000))
    assert "<script" not in text
    assert re.search(r"as JSON has [\d,]+ bytes and is not in this page", text)


def test_classes_of_all_layers_have_a_column():
    """Also those that the first layer has not seen; in the order of numbers."""
    rows = [layer("a"), layer("b"), layer("c")]
    rows[0]["zeros_by_class"] = {"2": 0.1}
    rows[1]["zeros_by_class"] = {"1": 0.1, "10": 0.2}
    rows[2]["zeros_by_class"] = {"-1": 0.1}
    text = render_fragment(Diagnosis((), tuple(rows)))
    heads = re.findall(r'<th scope="col">(.*?)</th>', text.split("by class</h2>")[1])
    assert heads == ["place", "-1", "1", "2", "10"]


def test_a_page_can_be_read_by_ear_and_on_a_narrow_screen_or_paper():
    """Language, headings in order, captions, scopes, titles of drawings; wide tables
    scroll by themselves, and nothing is cut off in print.
    """
    text = render(diagnosis())
    elements = whole(text)
    tags = [tag for tag, _ in elements]
    assert ("html", {"lang": "en"}) in elements
    headings = [tag for tag in tags if re.fullmatch("h[1-6]", tag)]
    assert headings[:5] == ["h1", "h2", "h3", "h3", "h3"]
    assert tags.count("h1") == 1
    assert tags.count("main") == 1
    assert tags.count("table") == 3
    assert tags.count("caption") == 2  # facts need no more than their heading
    assert all(attrs["scope"] in {"row", "col"} for t, attrs in elements if t == "th")
    assert tags.count("title") == 1 + tags.count("svg")
    assert all(attrs["role"] == "img" for tag, attrs in elements if tag == "svg")
    viewport = [attrs for _, attrs in elements if attrs.get("name") == "viewport"]
    assert viewport[0]["content"].startswith("width=device-width")
    for before, (tag, _) in pairwise(elements):
        if tag == "table":
            assert before[1]["class"] == "scroll"
            assert before[1]["tabindex"] == "0"
    (paper,) = re.findall(r"@media print\{(.*)\}\n", text, re.DOTALL)
    assert ".scroll{overflow:visible}" in paper
    assert "white-space:normal" in paper


def contrast(one, other):
    """Return the contrast of two colours such as #fff, from 1 to 21."""

    def luminance(colour):
        digits = colour[1:] if len(colour) == 7 else "".join(c * 2 for c in colour[1:])
        parts = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
        linear = [
            p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts
        ]
        return sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)


def test_text_has_enough_contrast():
    """At least 4.5 to 1 on white, and on the darkest shade of a cell."""
    text = render(diagnosis())
    colours = set(re.findall(r"[{;]color:(#[0-9a-f]+)", text))
    assert colours
    assert all(contrast(colour, "#fff") >= 4.5 for colour in colours)
    shade = [round(255 + 0.45 * (part - 255)) for part in (0, 114, 178)]
    darkest = "#" + "".join(f"{part:02x}" for part in shade)
    assert contrast("#1a1a1a", darkest) >= 4.5


def history(n=50, names=("1", "3"), value=0.5):
    """Return what a watch adds to the facts."""
    series = {"loss": [2.0 / (i + 1) for i in range(n)]}
    for name in names:
        series[f"zeros/{name}"] = [value] * n
        series[f"silent/{name}"] = [i / n for i in range(n)]
    return {"update": list(range(1, n + 1)), "series": series}


def test_a_watched_training_is_drawn():
    """Loss, zeros and silent units over the updates, with names and axes."""
    found = Diagnosis((), (), {"n_examples": 9, "history": history()})
    text = render(found)
    elements = whole(text)
    assert [tag for tag, _ in elements].count("figure") == 3
    assert text.count('class="line"') == 2 * 5  # each curve, and its key
    for word in ("Loss of the measured updates", ">update<", ">100%<", ">50<", ">2<"):
        assert word in text
    assert "updates that did not" not in text
    assert Diagnosis.from_json(found.to_json()) == found


def test_pages_with_everything_stay_small():
    """Long names, many findings, layers and classes, and full curves."""
    rows = [layer(f"{i}" + "é" * 500, 40) for i in range(500)]
    found = diagnosis("ü" * 500)
    drawn = history(100, [f"{i}" + "ß" * 300 for i in range(8)], value=0.123456)
    facts = {**found.facts, "history": drawn}
    text = render(Diagnosis(found.findings * 300, tuple(rows), facts))
    assert len(text.encode()) < 300_000
    assert text.count("<figure>") == 3


def test_curves_end_where_values_do():
    """Gaps stay gaps; the scale is logarithmic over more than two powers of ten."""
    picture = curves("t", [1, 2, 3, 4], {"a": [1.0, None, 1.0, 2.0]})
    assert re.search(r'd="M[\d. ]+M[\d. ]+L[\d. ]+"', picture)
    picture = curves("t", [1, 2, 3], {"a": [1e-3, 1.0, 1e3]})
    assert ">0.001<" in picture
    assert ">1<" in picture
    heights = re.findall(r"[ML][\d.]+ ([\d.]+)", picture.split('class="line"')[1])
    top, middle, bottom = sorted(map(float, heights))
    assert middle - top == pytest.approx(bottom - middle)
    assert "&lt;b&gt;" in curves("<b>", [1, 2], {"<b>": [0.0, 1.0]})


@pytest.mark.parametrize(
    ("x", "series"),
    [
        ([], {}),
        ([1], {"a": [1.0]}),
        ([1, 2], {}),
        ([1, 2], {"a": [None, None]}),
        ([1, 2], {"a": [1.0, float("inf")]}),
        ([1, 2], {"a": [-1.7e308, 1.7e308]}),
    ],
)
def test_nothing_is_drawn_of_nothing(x, series):
    """Instead of an empty frame."""
    assert curves("t", x, series) == ""


@pytest.mark.parametrize("value", [0.0, -1.0, 1e-320, 1e300])
def test_constant_curves_have_a_scale(value):
    """Whatever they are."""
    assert 'class="line"' in curves("t", [1, 2], {"a": [value, value]})
