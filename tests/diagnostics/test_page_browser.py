"""The page of a diagnosis in a browser, where there is one."""

import base64
import json
import shutil

import pytest

import hardzero
from hardzero.diagnostics import Diagnosis, Finding

torch = pytest.importorskip("torch")
webdriver = pytest.importorskip("selenium.webdriver")
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))),
    None,
)
DRIVER = shutil.which("chromedriver")
if CHROMIUM is None or DRIVER is None:
    pytest.skip("no chromium with its driver", allow_module_level=True)

SCREENS = {"wide": (1280, 800, False), "narrow": (360, 740, True)}
# Of each text that is seen: its contrast on the first opaque background behind it.
CONTRASTS = """
const light = c => {
  const [r, g, b] = c.map(v => (v /= 255) <= 0.04045 ? v / 12.92
                               : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const read = text => text.match(/[\\d.]+/g).map(Number);
const found = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const node = walker.currentNode, of = node.parentElement;
  if (!node.data.trim() || ['STYLE', 'SCRIPT', 'title'].includes(of.tagName)) continue;
  const style = getComputedStyle(of);
  const ink = read(of.closest('svg') ? style.fill : style.color);
  let layers = [], at = of;
  for (; at; at = at.parentElement) {
    const [r, g, b, a = 1] = read(getComputedStyle(at).backgroundColor);
    layers.push([r, g, b, a]);
    if (a === 1) break;
  }
  let ground = [255, 255, 255];
  for (const [r, g, b, a] of layers.reverse())
    ground = ground.map((v, i) => (1 - a) * v + a * [r, g, b][i]);
  const [low, high] = [light(ink.slice(0, 3)), light(ground)].sort((a, b) => a - b);
  found.push([(high + 0.05) / (low + 0.05), node.data]);
}
return found;
"""
# Texts that reach out of the page or of what scrolls around them.
CUT = """
const found = [];
for (const of of document.querySelectorAll('h1,h2,h3,p,dt,dd,li,small,text')) {
  if (of.closest('.scroll')) continue;
  const box = of.getBoundingClientRect();
  if (box.right > innerWidth + 0.5 || box.left < -0.5) found.push(of.textContent);
}
return found;
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """Start a browser without a window, and without calls of its own."""
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    profile = tmp_path_factory.mktemp("profile")
    for argument in (
        "--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage "
        "--disable-quic --no-first-run --disable-background-networking "
        f"--disable-component-update --disable-sync --user-data-dir={profile}"
    ).split():
        options.add_argument(argument)
    options.set_capability(
        "goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"}
    )
    found = webdriver.Chrome(options, webdriver.ChromeService(DRIVER))
    yield found
    found.quit()


def watched():
    """Return the diagnosis of a training at a rate that kills units."""
    torch.manual_seed(0)
    nn = torch.nn
    model = nn.Sequential(
        *[nn.Linear(8, 50), nn.ReLU(), nn.Linear(50, 50), nn.ReLU(), nn.Linear(50, 3)]
    )
    X, y = torch.randn(600, 8), torch.arange(600) % 3
    X[:, 0] += y
    optimizer = torch.optim.SGD(model.parameters(), 30.0)
    loss = nn.CrossEntropyLoss()
    with hardzero.watch(model) as watch:
        for _ in range(60):
            optimizer.zero_grad()
            loss(model(X), y).backward()
            optimizer.step()
    found = watch.diagnose((X, y), loss)
    assert not found.healthy
    return found


def endless():
    """Return a diagnosis with long names, many findings, layers and classes."""
    name = "encoder.layers.11." + "x" * 900 + "<script>alert(1)</script>\udc80"
    row = {"name": name, "function": "relu", "units": 40_000, "examples": 3000}
    row |= {"zeros": 0.5, "zeros_low": 0.4, "zeros_high": 0.6, "dead": 3}
    row |= {"counted": 16_384, "silent_examples": 0}
    row |= {"zeros_by_class": dict.fromkeys("abcdefghijklmnopqrstuvwxyz", 0.5)}
    finding = Finding("code", "serious", name, f"about {name}", (name,), name, name)
    series = {f"zeros/{i}{name}": [0.1 * i, 0.2] for i in range(9)}
    history = {"update": [1, 2], "series": series}
    facts = {"n_examples": 3000, "history": history}
    return Diagnosis((finding,) * 200, (row,) * 200, facts)


CASES = {
    "watched": watched,
    "endless": endless,
    "nothing": lambda: Diagnosis((), (), {"n_examples": 5}),
}


@pytest.fixture(scope="module", params=CASES)
def page(request, browser, tmp_path_factory):
    """Open a page."""
    path = tmp_path_factory.mktemp("pages") / "page.html"
    CASES[request.param]().save_html(path)
    browser.get_log("performance")
    browser.get(path.as_uri())
    return browser


def screen(page, width, height, mobile, **media):
    """Set the size of the screen, and what it prefers."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", media)


def test_it_needs_nothing_else(page):
    """No request but that for the file, no error, no script that runs."""
    messages = [
        json.loads(entry["message"])["message"]
        for entry in page.get_log("performance")
        if "Network.requestWillBeSent" in entry["message"]
    ]
    asked = [message["params"] for message in messages]
    urls = [
        request["request"]["url"]
        for request in asked  # the browser's own first page asks for much
        if request.get("documentURL") == page.current_url
    ]
    assert urls == [page.current_url]
    assert not [e for e in page.get_log("browser") if e["level"] == "SEVERE"]
    kinds = "return [...document.scripts].map(s => s.type)"
    assert set(page.execute_script(kinds)) <= {"application/json"}


@pytest.mark.parametrize("size", SCREENS.values(), ids=SCREENS)
def test_only_tables_scroll_to_the_side(page, size):
    """The page itself is no wider than the screen, and no text is cut off."""
    screen(page, *size)
    width = "return document.documentElement.scrollWidth <= window.innerWidth"
    assert page.execute_script(width)
    assert not page.execute_script(CUT)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_stand_out(page, scheme):
    """With a contrast of 4.5 or more, whatever the reader's system prefers."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    screen(page, *SCREENS["wide"], features=features)
    contrasts = page.execute_script(CONTRASTS)
    assert len(contrasts) > 3
    assert not [text for contrast, text in contrasts if contrast < 4.5]


def test_nothing_is_cut_off_on_paper(page):
    """In print, tables are no wider than the sheet, on white."""
    screen(page, 700, 990, False, media="print")
    width = "return document.documentElement.scrollWidth <= window.innerWidth"
    assert page.execute_script(width)
    inner = (
        "return [...document.querySelectorAll('.scroll')]"
        ".every(s => s.scrollWidth <= s.clientWidth)"
    )
    assert page.execute_script(inner)
    style = "return getComputedStyle(document.body).backgroundColor"
    assert page.execute_script(style) == "rgb(255, 255, 255)"
    printed = page.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})
    paper = base64.b64decode(printed["data"])
    assert paper.startswith(b"%PDF")


def test_curves_lie_within_their_frame(page):
    """Lines and texts of a picture stay inside it, and keys do not overlap."""
    screen(page, *SCREENS["wide"])
    outside = """
    const found = [];
    for (const svg of document.querySelectorAll('svg.chart')) {
      const frame = svg.getBoundingClientRect();
      for (const part of svg.querySelectorAll('path,text')) {
        const box = part.getBoundingClientRect();
        if (box.left < frame.left - 1 || box.right > frame.right + 1 ||
            box.top < frame.top - 1 || box.bottom > frame.bottom + 1)
          found.push(part.outerHTML);
      }
      const boxes = [...svg.querySelectorAll('text')];
      for (const [i, one] of boxes.entries())
        for (const other of boxes.slice(i + 1)) {
          const a = one.getBoundingClientRect(), b = other.getBoundingClientRect();
          if (a.left < b.right && b.left < a.right &&
              a.top < b.bottom - 2 && b.top < a.bottom - 2)
            found.push(one.outerHTML + other.outerHTML);
        }
    }
    return found;
    """
    assert not page.execute_script(outside)
