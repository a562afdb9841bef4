"""The playground's page in a real browser: headless Chromium, from the system's packages, driven by playwright."""
import base64
import os
import shutil
import threading
from pathlib import Path

import numpy as np
import playground
import pytest
from page import columns
from page import server as playground_server

from bpe import colours

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
SWITCHES = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
            "--disable-component-update", "--disable-sync"]
DONE = "#columns[aria-busy=false]"


@pytest.fixture(scope="module")
def browser():
    """A browser; without one the tests are skipped for a user, and fail under CI."""
    try:
        from playwright.sync_api import sync_playwright

        missing = "" if CHROMIUM else "there is no Chromium: apt-get install chromium"
    except ImportError:
        missing = "playwright is not installed: pip install '.[browser]'"
    if missing:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"the page cannot be tested in a browser: {missing}")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=SWITCHES)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def server(fetched):
    for name in ("encoder.json", "bert", "llama"):
        fetched(name)
    table = np.random.default_rng(0).normal(size=(50257, 8)).astype(np.float32)
    table[383] = 2 * table[262]  # the row nearest to the one of " the"
    with playground_server.Server("127.0.0.1", 0, columns.Table(table, "table.safetensors")) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def tab(browser, server):
    """A page of the browser, and a list of what goes wrong on it: errors, dialogs, requests to anywhere else."""
    page, wrong = browser.new_page(), []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    page.on("dialog", lambda dialog: (wrong.append(dialog.message), dialog.dismiss()))
    ours = (server.url, "data:", "file:", "about:")
    page.on("request", lambda request: None if request.url.startswith(ours) else wrong.append(request.url))
    return page, wrong


@pytest.fixture
def wrong(tab):
    return tab[1]


@pytest.fixture
def page(tab, server):
    """The page, newly loaded and drawn; at the end of the test nothing on it may have gone wrong."""
    page, wrong = tab
    page.set_viewport_size({"width": 1300, "height": 900})
    page.emulate_media(color_scheme="light")
    page.goto(server.url)
    page.wait_for_selector(DONE)
    yield page
    page.unroute_all()
    assert not wrong, [wrong.pop() for _ in list(wrong)]


def carve(page, text: str) -> None:
    page.fill("#text", text)
    page.wait_for_function("text => drawnText === text", arg=text)
    page.wait_for_selector(DONE)


def shown(page, column: int = 1) -> list[str]:
    return page.locator(f".column:nth-child({column}) .chip > bdi").all_inner_texts()


def chip(page, column: int, place: int):
    return page.locator(f".column:nth-child({column}) .chip").nth(place)


def lit(page, column: int) -> list[str]:
    return page.locator(f".column:nth-child({column}) .chip.lit > bdi").all_inner_texts()


def test_it_carves_while_one_types_and_the_newest_answer_wins(page):
    page.fill("#text", "")
    page.locator("#text").press_sequentially("Hello world")
    page.wait_for_function("() => drawnText === 'Hello world'")
    assert (shown(page, 1), shown(page, 2), shown(page, 3)) == (["Hello", "␣world"], ["hello", "world"], ["▁Hello", "▁world"])
    assert page.locator(".head strong").all_inner_texts() == ["2", "2", "2"]
    assert "GPT-2 2 tokens, 5.5 bytes each" in page.text_content("#counts[aria-live=polite]")


def test_an_answer_that_comes_late_does_not_replace_a_newer_one(page):
    held = []
    page.route("**/tokens", lambda route: held.append(route) if "slow" in route.request.post_data else route.continue_())
    with page.expect_request("**/tokens"):
        page.fill("#text", "slow")
    carve(page, "quick")
    for route in held:
        route.fulfill(json=columns.carve("slow"))
    carve(page, "quicker")
    assert shown(page, 1) == ["qu", "icker"]


def test_text_is_never_read_as_html(page):
    text = """<script>alert(1)</script><img src=x onerror=alert(2)> "quotes" & 'more' &lt;b&gt;"""
    carve(page, text)
    assert "".join(shown(page, 1)).replace("␣", " ") == text
    chip(page, 1, 1).click()
    page.wait_for_selector(".near")
    assert page.locator("main img, #inspector img, main script, #inspector script").count() == 0


def test_pointing_at_a_chip_lights_those_of_the_same_characters(page):
    carve(page, "an unaffable Café 🤷")
    chip(page, 2, 2).hover()  # ##ffa
    assert (lit(page, 1), lit(page, 2), lit(page, 3)) == (["␣unaff", "able"], ["##ffa"], ["ff", "able"])
    told = page.inner_text("#pointed")
    assert "token 3 of 6" in told and "id 20961" in told and "bytes 66 66 61" in told
    chip(page, 1, 6).hover()  # one byte of three
    assert lit(page, 2) == ["[UNK]"] and lit(page, 3) == ["<0xF0>", "<0x9F>", "<0xA4>", "<0xB7>"]
    page.locator("h1").hover()
    assert lit(page, 1) == []


def test_the_keyboard_reaches_every_chip_and_a_screen_reader_hears_it(page):
    carve(page, "one two\nthree")
    assert page.locator(".column:nth-child(1) .chip[tabindex='0']").count() == 1
    chip(page, 1, 0).focus()
    for key, label in [
        ("ArrowRight", "token 2 of 4, id 734, '␣two', bytes 20 74 77 6f"),
        ("End", "token 4 of 4, id 15542, 'three', bytes 74 68 72 65 65"),
        ("ArrowDown", "token 3 of 3, id 2093, 'three', bytes 74 68 72 65 65"),
        ("ArrowUp", "token 4 of 4, id 15542, 'three', bytes 74 68 72 65 65"),
        ("ArrowRight", "token 4 of 4, id 15542, 'three', bytes 74 68 72 65 65"),
        ("Home", "token 1 of 4, id 505, 'one', bytes 6f 6e 65"),
    ]:
        page.keyboard.press(key)
        assert page.evaluate("document.activeElement.ariaLabel") == label
    assert page.locator(".column:nth-child(1) .chip[tabindex='0']").count() == 1 and lit(page, 2) == ["one"]
    page.keyboard.press("Enter")
    page.wait_for_selector("#opened .steps")
    assert page.evaluate("document.activeElement.tagName") == "H2"
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.ariaLabel").startswith("token 1 of 4") and page.locator("#opened").is_hidden()
    unnamed = "[...document.querySelectorAll('button, textarea, input, select, canvas')].filter(e => !(e.ariaLabel || e.innerText || e.labels?.length))"
    assert page.evaluate(f"{unnamed}.length") == 0


def test_a_chip_of_gpt2_opens_its_merges_and_its_row(page):
    carve(page, "on the table")
    chip(page, 1, 1).click()
    page.wait_for_selector(".near")
    assert "bytes\n20 74 68 65\n" in page.inner_text(".facts") and "32 116 104 101" in page.inner_text(".facts")
    steps = page.locator(".steps li").all_inner_texts()
    assert [step.split() for step in steps] == [
        ["the", "bytes", "␣", "t", "h", "e"], ["makes", "256", "␣t", "h", "e"], ["makes", "258", "␣t", "he"], ["makes", "262", "␣the"],
    ]
    assert page.locator(".near li").count() == 10 and "383 · 1.000" in page.locator(".near li").first.inner_text()
    assert page.get_attribute("canvas", "aria-label").startswith("8 numbers from ")
    page.click("#close")
    chip(page, 2, 1).click()  # BERT has no merges, and the table is not its own
    assert page.locator("#opened .panes section").count() == 1


def test_the_experiments_are_a_button_each(page):
    for name, column, expected in [
        ("Indented code", 3, "▁▁▁"), ("␣SolidGoldMagikarp", 1, "␣SolidGoldMagikarp"), ("Hindi and Mandarin", 1, r"\xe0\xa4"),
        ("1234567890", 3, "1"), ("Emoji family", 2, "[UNK]"), ("Contraction", 1, "'ll"), ("Special tokens", 1, "</"),
    ]:
        before = page.input_value("#text")
        page.get_by_role("button", name=name).click()
        page.wait_for_function("before => drawnText !== before && drawnText === $('text').value", arg=before)
        page.wait_for_selector(DONE)
        assert expected in shown(page, column), name
    page.get_by_role("button", name="Emoji family").click()
    page.wait_for_function("() => drawnText.startsWith('👨')")
    assert page.locator(".column:nth-child(1) .group > bdi").first.inner_text() == "👨‍👩‍👧‍👦"


def test_the_switches_show_special_tokens_ids_and_bytes(page):
    carve(page, "a<|endoftext|>")
    assert len(shown(page, 1)) > 2 and page.locator(".chip.special").count() == 0
    page.check("#specials")
    page.wait_for_selector(".chip.special")
    assert shown(page, 1) == ["a", "<|endoftext|>"]
    below = "getComputedStyle(document.querySelector('.chip.special'), '::after').content"
    assert page.evaluate(below) == "none"
    page.check("#ids")
    assert page.evaluate(below) == '"50256"'
    page.check("#bytes")
    assert page.evaluate(below) == r'"50256\a 3c 7c 65 6e 64 6f 66 74 65 78 74 7c 3e"'
    page.uncheck("#ids")
    assert page.evaluate(below) == '"3c 7c 65 6e 64 6f 66 74 65 78 74 7c 3e"'
    assert page.evaluate("getComputedStyle(document.querySelector('.chip.special')).borderStyle") == "dashed"


@pytest.mark.parametrize("theme, text", [("light", (17, 17, 17)), ("dark", (255, 255, 255))])
def test_an_id_has_its_colour_in_every_occurrence_and_both_themes(page, theme, text):
    carve(page, "the cat, the dog, the end")
    page.select_option("#theme", theme)
    pixels = """elements => elements.map(element => ['backgroundColor', 'color'].map(name => {
        const paint = new OffscreenCanvas(1, 1).getContext('2d');
        paint.fillStyle = getComputedStyle(element)[name];
        paint.fillRect(0, 0, 1, 1);
        return [...paint.getImageData(0, 0, 1, 1).data].slice(0, 3); }))"""
    found = page.locator(".column:nth-child(1) .chip").evaluate_all(pixels)
    ids = page.locator(".column:nth-child(1) .chip").evaluate_all("chips => chips.map(chip => chip.piece.id)")
    assert ids.count(262) == 2
    for id, (background, ink) in zip(ids, found):
        assert tuple(ink) == text and np.abs(np.subtract(background, colours.rgb(id, theme == "dark"))).max() <= 1
    own = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert own == ("rgb(251, 250, 248)" if theme == "light" else "rgb(20, 21, 23)")


def test_the_theme_is_the_system_s_unless_one_is_chosen(page):
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(251, 250, 248)"
    page.emulate_media(color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 21, 23)"


def test_a_link_carries_the_text_and_the_switch(page, server):
    text = "नमस्ते + / ? # & <|endoftext|>\n"
    carve(page, text)
    page.check("#specials")
    page.wait_for_selector(".chip.special")
    link = page.url
    assert link.startswith(f"{server.url}#t=") and link.endswith("&specials")
    kept = link.split("#t=")[1].removesuffix("&specials")
    assert base64.urlsafe_b64decode(kept + "=" * (-len(kept) % 4)).decode() == text
    page.goto("about:blank")
    page.goto(link)
    page.wait_for_selector(".chip.special")
    assert page.input_value("#text") == text and page.is_checked("#specials")
    page.evaluate("location.hash = '#t=SGk'")  # another link, while the page is open
    page.wait_for_function("() => drawnText === 'Hi'")
    page.evaluate("location.hash = '#t=____'")
    page.wait_for_function("() => $('note').textContent.includes('damaged')")
    assert page.input_value("#text") == "Hi"


def test_a_megabyte_is_pasted_counted_and_drawn_in_part(page):
    text = ("It is a truth universally acknowledged, that all of it is counted. " * 15_000)[:1_000_000]
    page.focus("#text")
    page.keyboard.press("Control+A")
    page.keyboard.insert_text(text)  # one input event, as when pasting
    page.wait_for_function("() => drawnText.length === 1000000", timeout=60_000)
    page.wait_for_selector(DONE)
    assert "1,000,000 bytes" in page.inner_text("#counts")
    notes = page.locator(".more").all_inner_texts()
    assert len(notes) == 3 and all(note.startswith("Drawn: the first 2,000 of ") for note in notes)
    assert page.locator(".chip").count() == 3 * columns.DRAWN
    assert "#" not in page.url and "not kept in the address" in page.inner_text("#note")
    carve(page, "short again")
    assert len(shown(page)) == 2 and "#t=" in page.url


def test_a_text_over_the_limit_is_told_so_and_the_page_goes_on(page, wrong):
    page.evaluate(f"$('text').value = 'é'.repeat({playground_server.LARGEST_BODY // 2}); refresh()")
    page.wait_for_function("() => $('trouble').textContent.includes('the most are')")
    assert page.get_attribute("#trouble", "role") == "alert" and "413" in wrong.pop()  # as the browser puts it
    carve(page, "fine")
    assert page.inner_text("#trouble") == ""


def test_text_from_right_to_left_stands_by_itself(page):
    carve(page, "שלום world")
    assert page.locator(".chip > bdi").count() == page.locator(".chip").count()
    assert shown(page, 3)[-1] == "▁world"


def test_a_missing_vocabulary_is_named_in_its_column(page, monkeypatch):
    missing = columns.BERT()
    monkeypatch.setattr(missing, "load", lambda: (_ for _ in ()).throw(FileNotFoundError("run: download bert")))
    monkeypatch.setattr(columns, "COLUMNS", [columns.COLUMNS[0], missing, columns.COLUMNS[2]])
    carve(page, "Hello there")
    assert page.inner_text(".problem") == "run: download bert" and page.locator(".head").count() == 2
    chip(page, 1, 1).hover()
    assert lit(page, 3) == ["▁there"]
    assert "Llama 2 under Llama 2 Community License (Meta)" in page.inner_text("footer")


def test_a_snapshot_opens_without_a_server(page, tmp_path):
    path = Path(tmp_path, "page.html")
    assert playground.main(["--html", str(path), "--text", "so low </script> 🤷"]) == 0
    page.goto(path.as_uri())
    page.wait_for_selector(DONE)
    assert shown(page, 1)[:3] == ["so", "␣low", "␣</"]
    chip(page, 1, 1).click()
    page.wait_for_selector(".steps")
    assert page.locator(".steps li").count() == 4


def test_it_fits_a_narrow_screen(page):
    page.set_viewport_size({"width": 360, "height": 700})
    carve(page, "a" * 300 + " " + "w" * 300)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
