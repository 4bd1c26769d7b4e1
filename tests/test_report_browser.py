"""The page in a real browser: it works, asks the network for nothing, and what files hold stays text."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from reference.browser import Browser, chromium
from reference.program import attrcert
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

ATTACK = '<img src=x onerror="document.title=\'hit\'"><script>document.title="hit"</script>'


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def page(report_runs, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    files = [report_runs / name for name in ("natural.csv", "adversarial.csv", "bound.csv")]
    done = attrcert("report", *files, "--out", folder / "report.html")
    assert done.code == 0, done.err
    return folder / "report.html"


def cells(browser: Browser, column: str) -> list[str]:
    """The texts of a column in the rows that are shown, from top to bottom."""
    script = """
    const names = Array.from(document.querySelectorAll("#table th"), (head) => head.textContent);
    const at = names.indexOf(arguments[0]);
    return Array.from(document.querySelectorAll("#table tbody tr"))
      .filter((row) => row.offsetParent !== null).map((row) => row.cells[at].textContent);
    """
    return browser.run(script, column)


def head(browser: Browser, column: str):
    heads = browser.driver.find_elements(By.CSS_SELECTOR, "#table th")
    return next(one for one in heads if one.text.split("\n")[0].rstrip(" ▲▼") == column)


def test_the_page_loads_without_a_console_message_and_asks_for_nothing_but_itself(browser, page):
    browser.open(page)
    assert browser.driver.find_element(By.TAG_NAME, "h1").text.startswith("attrcert: natural, adversarial, bound")
    assert browser.console == []
    assert browser.requests == [page.as_uri()]


def test_every_picture_and_figure_is_drawn(browser, page):
    browser.open(page)
    widths = browser.run("return Array.from(document.images, (image) => image.complete && image.naturalWidth)")
    # 2 runs, most and least moved, of 6 samples 4 and the other 2, 5 pictures each; 6 pictures of the Jacobian
    assert len(widths) == 2 * (4 + 2) * 5 + 6
    assert all(width >= 28 for width in widths)
    heights = browser.run(
        "return Array.from(document.querySelectorAll('.plots svg'), (svg) => svg.getBoundingClientRect().height)"
    )
    assert len(heights) == 9
    assert all(height > 50 for height in heights)


def test_a_click_on_a_column_sorts_it_up_and_a_second_one_down(browser, page):
    browser.open(page)
    for direction, reverse in (("ascending", False), ("descending", True)):
        head(browser, "T_e").find_element(By.TAG_NAME, "button").click()
        values = [float(text) for text in cells(browser, "T_e")]
        assert values == sorted(values, reverse=reverse)
        assert head(browser, "T_e").get_attribute("aria-sort") == direction
    assert len(set(cells(browser, "T_e"))) > 10


def test_empty_cells_come_last_in_both_directions(browser, page):
    browser.open(page)
    for _ in range(2):
        head(browser, "T_hat_e").find_element(By.TAG_NAME, "button").click()
        texts = cells(browser, "T_hat_e")
        assert texts[-4:] == [""] * 4  # the bound's rows
        assert "" not in texts[:-4]


def test_columns_are_sorted_from_the_keyboard(browser, page):
    browser.open(page)
    button = head(browser, "index").find_element(By.TAG_NAME, "button")
    browser.run("arguments[0].focus()", button)
    button.send_keys(Keys.ENTER)
    indices = [int(text) for text in cells(browser, "index")]
    assert indices == sorted(indices)
    assert len(set(indices)) == 6


def test_words_and_a_status_filter_the_rows_and_the_count_tells(browser, page):
    browser.open(page)
    total = len(cells(browser, "index"))
    assert total == 2 * 6 * 2 * 2 + 4
    browser.driver.find_element(By.ID, "find").send_keys("adversarial TOP-K")
    assert set(cells(browser, "run")) == {"adversarial"}
    assert set(cells(browser, "attack")) == {"top-k"}
    assert len(cells(browser, "run")) == 12
    assert browser.driver.find_element(By.ID, "count").text == f"12 of {total} rows"
    browser.driver.find_element(By.ID, "find").send_keys(" nothing-has-this")
    assert cells(browser, "run") == []
    browser.open(page)
    select = Select(browser.driver.find_element(By.ID, "status"))
    statuses = [option.text for option in select.options]
    select.select_by_visible_text(statuses[-1])
    assert set(cells(browser, "status")) == {statuses[-1]}
    assert 0 < len(cells(browser, "status")) < total


def test_further_columns_are_shown_on_request(browser, page):
    browser.open(page)
    shown = (
        "return Array.from(document.querySelectorAll('#table th')).filter((head) => head.offsetParent !== null).length"
    )
    few = browser.run(shown)
    browser.driver.find_element(By.ID, "all").click()
    assert browser.run(shown) > few + 10


@pytest.mark.parametrize("width", [360, 768, 1200])
def test_the_page_is_never_wider_than_the_window(browser, page, width):
    browser.open(page, width=width)
    assert browser.run("return document.documentElement.scrollWidth") <= width


def luminance(colour: str) -> float:
    """WCAG 2: of a text like rgb(1, 2, 3)."""
    parts = [int(part) / 255 for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("selector", ["body", ".hint", ".badge.first-order", ".badge.empirical", "figcaption", "nav a"])
def test_letters_have_the_contrast_that_wcag_asks_for(browser, page, scheme, selector):
    browser.open(page, scheme=scheme)
    script = """
    const one = document.querySelector(arguments[0]);
    let under = one;
    while (getComputedStyle(under).backgroundColor === "rgba(0, 0, 0, 0)") under = under.parentElement;
    return [getComputedStyle(one).color, getComputedStyle(under).backgroundColor];
    """
    light, dark = sorted(map(luminance, browser.run(script, selector)), reverse=True)
    assert (light + 0.05) / (dark + 0.05) >= 4.5


def test_dark_mode_is_dark_and_figures_take_its_ink(browser, page):
    browser.open(page, scheme="dark")
    assert luminance(browser.run("return getComputedStyle(document.body).backgroundColor")) < 0.05
    script = "return getComputedStyle(document.querySelector('.plots svg text')).fill"
    assert luminance(browser.run(script)) > 0.5


def test_markup_in_files_and_manifests_is_shown_as_text_and_does_nothing(browser, report_runs, tmp_path):
    hostile = tmp_path / "<img src=x onerror=alert(1)>.csv"
    hostile.write_text((report_runs / "natural.csv").read_text().replace("euclidean", ATTACK.replace('"', "'")))
    manifest = json.loads((report_runs / "natural.csv.json").read_text())
    manifest["identity"]["classes"] = [ATTACK] * 10
    manifest["identity"]["checkpoint"] = manifest["facts"]["model"] = ATTACK
    manifest["findings"] = [{"check": ATTACK, "level": "warn", "message": ATTACK}]
    manifest["deltas"] = str(report_runs / "natural.safetensors")
    Path(f"{hostile}.json").write_text(json.dumps(manifest))
    page = tmp_path / "report.html"
    done = attrcert("report", hostile, "--out", page, "--title", f"</title>{ATTACK}")
    assert done.code == 0, done.err
    browser.open(page)
    assert browser.driver.title == f"</title>{ATTACK}"
    assert browser.console == []
    assert browser.requests == [page.as_uri()]
    assert browser.run("return document.scripts.length") == 1
    assert ATTACK in cells(browser, "predicted")[0]
    assert browser.run("return Array.from(document.images).every((image) => image.src.startsWith('data:image/png'))")


def test_a_script_that_somebody_put_into_the_page_does_not_run(browser, page, tmp_path):
    changed = tmp_path / "changed.html"
    changed.write_text(page.read_text().replace("</main>", "<script>document.title = 'hit'</script></main>"))
    browser.open(changed)
    assert browser.driver.title != "hit"
    assert any("Content Security Policy" in message for message in browser.console)
