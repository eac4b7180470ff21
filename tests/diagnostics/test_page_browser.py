"""The page of a diagnosis in a browser, where there is one."""

import base64
import shutil

import pytest

from hardzero.diagnostics import Diagnosis, Finding

webdriver = pytest.importorskip("selenium.webdriver")
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))),
    None,
)
DRIVER = shutil.which("chromedriver")
if CHROMIUM is None or DRIVER is None:
    pytest.skip("no chromium with its driver", allow_module_level=True)


@pytest.fixture(scope="module")
def browser():
    """Start a browser without a window."""
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    found = webdriver.Chrome(options, webdriver.ChromeService(DRIVER))
    yield found
    found.quit()


@pytest.fixture
def page(browser, tmp_path):
    """Open a page with long names and many classes."""
    name = "encoder.layers.11." + "x" * 900
    row = {"name": name, "function": "relu", "units": 100, "examples": 3000}
    row |= {"zeros": 0.5, "zeros_low": 0.4, "zeros_high": 0.6, "dead": 3}
    row |= {"silent_examples": 0, "zeros_by_class": dict.fromkeys("abcdefghijklm", 0.5)}
    finding = Finding("code", "serious", name, f"about {name}", (name,), name, name)
    found = Diagnosis((finding,), (row,) * 5, {"n_examples": 3000})
    found.save_html(tmp_path / "page.html")
    browser.get((tmp_path / "page.html").as_uri())
    return browser


def test_a_narrow_screen_scrolls_tables_only(page):
    """At 360 pixels the page itself is no wider than the screen."""
    size = {"width": 360, "height": 740, "deviceScaleFactor": 1, "mobile": True}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    width = "return document.documentElement.scrollWidth <= window.innerWidth"
    assert page.execute_script(width)
    assert not [e for e in page.get_log("browser") if e["level"] == "SEVERE"]


def test_nothing_is_cut_off_on_paper(page):
    """In print, tables are no wider than the sheet, on white."""
    size = {"width": 700, "height": 990, "deviceScaleFactor": 1, "mobile": False}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    width = "return document.documentElement.scrollWidth <= window.innerWidth"
    assert page.execute_script(width)
    style = "return getComputedStyle(document.body).backgroundColor"
    assert page.execute_script(style) == "rgb(255, 255, 255)"
    printed = page.execute_cdp_cmd("Page.printToPDF", {})
    assert base64.b64decode(printed["data"]).startswith(b"%PDF")
