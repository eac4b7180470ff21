"""The page of a diagnosis: whole, small, and safe with any text."""

import json
import re
from html.parser import HTMLParser

import pytest

from hardzero.diagnostics import Diagnosis, Finding
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

    def handle_endtag(self, tag):
        """Close the last one."""
        if tag not in {"rect", "path"}:
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
    inside = re.search(r'<script type="application/json"[^>]*>(.*?)</script>', text)
    assert inside is None or json.loads(inside[1])
    data = text.split('id="diagnosis">')[1].split("</script>")[0]
    assert Diagnosis.from_json(data).findings == found.findings
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
    assert Diagnosis(())._repr_html_() == text
