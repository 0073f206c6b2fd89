"""The page in a real browser: what it says, in which order, and how it stays alive."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import made_statuses as made
import pytest
from browsing import Browser, Served
from selenium.webdriver.common.keys import Keys

from yarnps.status import Point, Status

Serve = Callable[[Status], Served]

MAKERS: dict[str, Callable[[], Status]] = {
    "starting": made.starting,
    "training": made.training,
    "large": made.large,
    "failed": made.failed,
    "succeeded": made.succeeded,
    "hostile": made.hostile,
}
# A quarter of a second of processor time is what it takes.
RENDER_LIMIT_S = 1.0
ROWS = "#rows tr"


def rows_of(browser: Browser, column: str) -> list[str]:
    return browser.texts(f'{ROWS} td[data-column="{column}"]')


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_browser_has_no_complaint(
    serve: Serve, browser: Browser, name: str, dark: bool
) -> None:
    browser.screen(1280, dark=dark)
    browser.open(serve(MAKERS[name]()))
    assert browser.complaints() == []
    assert browser.too_wide() == []


@pytest.mark.parametrize("name", MAKERS)
def test_nothing_sticks_out_of_a_phone(serve: Serve, browser: Browser, name: str) -> None:
    browser.screen(360, 740)
    browser.open(serve(MAKERS[name]()))
    browser.run("document.querySelectorAll('details').forEach(d => { d.open = true })")
    assert browser.too_wide() == []


def test_on_a_phone_every_figure_of_a_container_has_its_name(
    serve: Serve, browser: Browser
) -> None:
    browser.screen(360, 740)
    browser.open(serve(made.training()))
    label = "return getComputedStyle(document.querySelector(arguments[0]), '::before').content"
    for column in ("incarnation", "cpu", "memory", "rate", "heard"):
        cell = f'{ROWS} td[data-column="{column}"]'
        assert browser.shown(cell)
        assert browser.run(label, cell) not in ("none", '""'), column
    assert browser.shown("#order")


def test_the_sentence_comes_first_and_the_rest_in_order(serve: Serve, browser: Browser) -> None:
    status = made.failed()
    browser.open(serve(status))
    order = ["#sentence", "#cause", "#progress", "#curves", "#plot", "#table", "#events-list"]
    tops = [
        browser.run("return document.querySelector(arguments[0]).getBoundingClientRect().top", s)
        for s in order
    ]
    assert tops == sorted(tops)
    assert browser.text("#sentence") == status.sentence
    assert browser.text("#state") == "FAILED"


def test_a_job_that_trains(serve: Serve, browser: Browser) -> None:
    browser.open(serve(made.training()))
    assert browser.text("#name") == "flights"
    assert browser.driver.title == "57 % · flights · yarnps"
    assert browser.text("#connection").startswith("live")
    assert not browser.shown("#cause")
    bar = browser.run("return document.getElementById('progress').ariaValueNow")
    assert bar == "56"
    figures = browser.text("#figures")
    for text in ("447,300 of 785,631", "2 of 3", "40,812 rows/s", "8 of 12, 4 leased"):
        assert text in figures
    assert browser.texts(".metric-name") == ["test_auc", "test_logloss", "loss"]
    assert browser.texts(".newest")[:2] == ["0.7612", "0.4621"]
    points = "return document.querySelector('#plot .rate .line').getAttribute('d').length"
    assert browser.run(points) > 500


def test_a_job_that_waits_says_for_what_and_until_when(serve: Serve, browser: Browser) -> None:
    status = made.starting()
    browser.open(serve(status))
    assert browser.text("#sentence") == status.sentence
    assert browser.texts("#sentence mark") == list(status.waits)
    assert not browser.shown("#waits")
    assert browser.run("return document.getElementById('announcer').textContent") == (
        status.sentence
    )
    unsaid = dataclasses.replace(status, sentence="Starting.")
    browser.open(serve(unsaid))
    assert browser.texts("#waits-list li") == list(status.waits)


def test_a_failure_shows_its_cause_and_traceback(serve: Serve, browser: Browser) -> None:
    status = made.failed()
    browser.open(serve(status))
    assert browser.text("#cause-title") == "Cause: script"
    assert browser.text("#cause-help") == "The same again would end the same way."
    assert browser.text("#cause-traceback") == made.TRACEBACK
    assert not browser.shown("#cause-text")  # the sentence has said it
    assert rows_of(browser, "rank")[0] == "worker 1"
    assert browser.text("#connection") == "the job has ended"


def test_a_cause_that_the_sentence_leaves_out_is_written(serve: Serve, browser: Browser) -> None:
    browser.open(serve(dataclasses.replace(made.failed(), sentence="Failed.")))
    assert "ZeroDivisionError" in browser.text("#cause-text")


def test_a_success_shows_every_epoch(serve: Serve, browser: Browser) -> None:
    browser.open(serve(made.succeeded()))
    assert browser.texts(".curve:first-child .value") == ["0.7612", "0.7688", "0.7704"]
    assert "785,631" in browser.text("#facts")
    assert not browser.shown("#cause")
    epochs = browser.texts(".curve:first-child .tick")[-3:]
    assert epochs == ["epoch 1", "epoch 2", "epoch 3"]


def test_after_the_end_it_says_so_and_asks_no_more(serve: Serve, browser: Browser) -> None:
    page = serve(made.succeeded())
    browser.open(page)
    page.stop()  # the ApplicationMaster goes away with its job
    browser.run("document.dispatchEvent(new Event('visibilitychange'))")
    text = "return document.getElementById('connection').innerText.includes('no more updates')"
    browser.until("the last word", text)
    assert browser.run("return document.body.dataset.live") == "over"


def test_an_open_page_learns_the_outcome_before_the_am_goes(serve: Serve, browser: Browser) -> None:
    page = serve(made.training())
    browser.open(page)
    page.status = made.succeeded()
    page.stop()  # at once, as the ApplicationMaster does
    state = "return document.getElementById('state').innerText"
    browser.until("the outcome", f"{state} === 'SUCCEEDED'")


def test_names_that_are_markup_are_only_text(serve: Serve, browser: Browser) -> None:
    status = made.hostile()
    browser.open(serve(status))
    assert browser.run("return window.harmed") is None
    assert browser.run("return document.querySelectorAll('img').length") == 0
    assert browser.run("return document.querySelectorAll('script').length") == 1
    assert browser.text("#name") == status.name
    assert status.name in browser.texts(".metric-name")
    assert "__proto__" in browser.texts(".metric-name")
    links = browser.run("return [...document.links].map(a => a.protocol)")
    assert set(links) <= {"http:"}
    assert browser.complaints() == []


def test_a_metric_that_is_not_finite_is_named_so(serve: Serve, browser: Browser) -> None:
    curve = (Point(1.0, 0.5), Point(2.0, math.nan))
    browser.open(serve(made.status(metrics={"loss": math.nan}, curves={"loss": curve})))
    assert browser.texts(".newest") == ["not finite"]
    assert browser.complaints() == []


def test_times_are_local_with_utc_at_hand(serve: Serve, browser: Browser) -> None:
    zone = {"timezoneId": "Asia/Kolkata"}  # 5 h 30 min ahead
    browser.driver.execute_cdp_cmd("Emulation.setTimezoneOverride", zone)
    now = 1764504000.0  # 2025-11-30 12:00:00 UTC
    try:
        browser.open(serve(made.training(now)))
        first = "return document.querySelector('#events-list li:last-child time')[arguments[0]]"
        assert "17:26:40" in browser.run(first, "innerText")
        assert browser.run(first, "title") == "2025-11-30 11:56:40 UTC"
    finally:
        utc = {"timezoneId": "UTC"}
        browser.driver.execute_cdp_cmd("Emulation.setTimezoneOverride", utc)


# ---------------------------------------------------------------- the timeline


def test_the_timeline_marks_what_happened(serve: Serve, browser: Browser) -> None:
    browser.open(serve(made.training()))
    legend = [" ".join(text.split()) for text in browser.texts("#legend button")]
    assert legend == ["epochs 3", "deaths 1", "grants 6", "saves 3", "AM 2"]
    assert browser.texts("#plot .phase-text") == ["epoch 1", "test", "epoch 2"]
    titles = browser.run(
        "return [...document.querySelectorAll('#plot .mark title')].map(t => t.textContent)"
    )
    death = [title for title in titles if "1.1 GiB used of 1 GiB allowed" in title]
    assert len(death) == 1
    assert "UTC" in death[0]
    assert browser.run("return document.querySelectorAll('#plot .rule.deaths').length") == 1


def test_many_marks_in_one_place_are_one_with_a_number(serve: Serve, browser: Browser) -> None:
    browser.open(serve(made.large()))
    numbers = [int(text or 1) for text in browser.texts("#plot .mark .many")]
    assert browser.texts("#legend .number")[2] == "484"
    assert max(numbers) > 100
    assert len(numbers) < 40


def test_the_timeline_is_a_list_for_the_keyboard(serve: Serve, browser: Browser) -> None:
    browser.open(serve(made.training()))
    assert browser.text("#marks-summary") == "As a list (15)"
    browser.run("document.getElementById('marks-summary').focus()")
    browser.driver.switch_to.active_element.send_keys(Keys.ENTER)
    browser.until("the list", "return document.querySelectorAll('#marks-list li').length === 15")
    assert "saves: cut 3 saved" in browser.texts("#marks-list li")[0]
    browser.click("#legend button:nth-child(3)")  # no grants
    browser.until("fewer", "return document.querySelectorAll('#marks-list li').length === 9")
    assert "grants" not in browser.texts("#plot .axis .tick")


def test_pointing_at_a_moment_reads_it_out(serve: Serve, browser: Browser) -> None:
    browser.open(serve(made.training()))
    browser.run(
        "const box = document.querySelector('#plot .rule.deaths').getBoundingClientRect();"
        "document.querySelector('#plot svg').dispatchEvent(new PointerEvent('pointermove',"
        "{clientX: box.left, clientY: box.top, bubbles: true}))"
    )
    assert "rows/s" in browser.text("#readout")
    assert "worker 2 died on 127.0.0.11" in browser.text("#readout")


# ---------------------------------------------------------------- containers and events


def test_a_row_says_everything_about_its_container(serve: Serve, browser: Browser) -> None:
    browser.open(serve(made.training()))
    assert rows_of(browser, "rank") == ["worker 2", "worker 0", "worker 1", "server 0", "server 1"]
    cells = browser.texts(f"{ROWS}:first-child td")
    assert cells[:4] == ["worker 2", "running", "127.0.0.11", "2"]
    assert cells[5].strip() == "244 MiB · 1010 MiB · 1 GiB"
    assert browser.run(f"return document.querySelector('{ROWS} [data-heat]').dataset.heat") == "hot"
    assert cells[6] == "13,132"
    assert cells[7].endswith("s ago")
    assert rows_of(browser, "note")[3] == "w: 524 k rows, 12 MiB"
    link = browser.run(f"return document.querySelector('{ROWS} a').href")
    assert link == "http://127.0.0.11:8042/node/containerlogs/worker_2/ana"


def test_logs_on_this_machine_are_a_path_to_copy(serve: Serve, browser: Browser) -> None:
    local = made.process("worker", 0, logs="file:///home/ana/.yarnps/local/a/containers/worker_0")
    browser.open(serve(made.status(processes=(local,))))
    title = browser.run(f"return document.querySelector('{ROWS} .copy').title")
    assert title == "/home/ana/.yarnps/local/a/containers/worker_0"


def test_rows_are_sorted_and_go_back_to_worst_first(serve: Serve, browser: Browser) -> None:
    browser.open(serve(made.training()))
    worst_first = rows_of(browser, "rank")
    button = 'th[data-column="rate"] button'
    browser.click(button)
    rates = [int(text.replace(",", "")) for text in rows_of(browser, "rate")[:3]]
    assert rates == sorted(rates, reverse=True)
    direction = "return document.querySelector('th[data-column=\"rate\"]').ariaSort"
    assert browser.run(direction) == "descending"
    browser.click(button)
    assert rows_of(browser, "rate")[:3] == [f"{rate:,}" for rate in reversed(rates)]
    assert rows_of(browser, "rate")[3:] == ["–", "–"]  # not known comes last both ways
    browser.click(button)
    assert rows_of(browser, "rank") == worst_first


def test_rows_are_filtered(serve: Serve, browser: Browser) -> None:
    browser.open(serve(made.large()))
    browser.type("#filter", "worker 7")
    assert rows_of(browser, "rank") == ["worker 7"]  # and not 17, 70 or a node with a 7
    browser.type("#filter", "killed by the kernel")
    assert rows_of(browser, "rank") == ["worker 449", "worker 448"]
    browser.type("#filter", "no such thing")
    assert browser.text("#rows-none") == "No container fits the filter."
    browser.type("#filter", "")
    browser.type("#role", "server")
    assert {text.split()[0] for text in rows_of(browser, "rank")} == {"server"}
    browser.type("#role", "")
    browser.click('#tally [data-process="lost"]')
    assert rows_of(browser, "state") == ["lost"]
    browser.click('#tally [data-process="lost"]')
    assert len(rows_of(browser, "rank")) == 50


def test_500_rows_are_there_at_once(serve: Serve, browser: Browser) -> None:
    browser.open(serve(made.large()))
    assert rows_of(browser, "state")[:4] == ["failed", "lost", "restarting", "running"]
    assert browser.text("#rows-more") == "Show all 500"
    assert browser.effort_s("document.getElementById('rows-more').click()") < RENDER_LIMIT_S
    assert len(rows_of(browser, "rank")) == 500
    sort = "document.querySelector('th[data-column=\"rate\"] button').click()"
    assert browser.effort_s(sort) < RENDER_LIMIT_S
    assert rows_of(browser, "rate")[0] == "15,982"


def test_an_update_of_500_rows_changes_what_differs_only(serve: Serve, browser: Browser) -> None:
    status = made.large()
    page = serve(status)
    browser.open(page)
    browser.click("#rows-more")
    browser.run(
        "window.row = document.querySelector('#rows tr:last-child'); window.moved = 0;"
        "new MutationObserver(all => { window.moved += all.length })"
        ".observe(document.getElementById('rows'), {childList: true})"
    )
    changed = status.processes[-1]
    changed = dataclasses.replace(changed, rows_per_s=4321.0)
    page.status = dataclasses.replace(
        status, now=status.now + 2, processes=(*status.processes[:-1], changed)
    )
    browser.until("the new figure", "return window.row.innerText.includes('4,321')")
    assert browser.run("return window.row.isConnected")
    assert browser.run("return window.moved") == 0


def test_events_are_newest_first_and_filtered_by_kind(serve: Serve, browser: Browser) -> None:
    status = made.training()
    browser.open(serve(status))
    shown = browser.texts("#events-list .text")
    assert shown == [event.text for event in reversed(status.events)]
    assert browser.texts("#kind option")[:2] == ["all kinds (22)", "trouble (1)"]
    browser.type("#kind", "kind save")
    assert browser.texts("#events-list .kind") == ["save"] * 3
    browser.type("#kind", "trouble")
    assert browser.texts("#events-list .kind") == ["death"]


def test_many_events_are_shown_a_part_at_a_time(serve: Serve, browser: Browser) -> None:
    status = made.large()
    browser.open(serve(status))
    assert len(browser.texts("#events-list li")) == 100
    browser.click("#events-more")
    assert len(browser.texts("#events-list li")) == 500
    assert browser.text("#events-note").endswith(f"{status.job_dir}/events/")


# ---------------------------------------------------------------- it stays alive


def test_it_survives_a_restart_of_the_am_without_a_reload(serve: Serve, browser: Browser) -> None:
    status = made.training()
    page = serve(status)
    browser.open(page)
    browser.run("window.same = true")
    line = "return document.querySelector('#plot .rate .line').getAttribute('d').split('L').length"
    points = browser.run(line)
    page.stop()
    away = (
        "return /^reconnecting since \\d\\d:/.test(document.getElementById('connection').innerText)"
    )
    browser.until("that it says so", away)
    assert browser.text("#sentence") == status.sentence
    assert len(browser.texts(ROWS)) == 5

    page.status = made.later(status)
    page.start()
    back = "return document.getElementById('sentence').innerText === arguments[0]"
    browser.until("later data", back, page.status.sentence)
    browser.until("the word live", "return document.body.dataset.live === 'live'")
    assert browser.run("return window.same")
    texts = browser.texts("#events-list .text")
    assert texts == [event.text for event in reversed(page.status.events)]
    # The AM has lost its curve; the page has not.
    assert browser.run(line) >= points
    assert "AM restarts" in browser.text("#figures")


def test_a_new_attempt_counts_its_events_from_one_again(serve: Serve, browser: Browser) -> None:
    status = made.training()
    page = serve(status)
    browser.open(page)
    story = made.Story()
    story.tell(status.now + 20, "start", "attempt 2 has started")
    story.tell(status.now + 22, "resume", "goes on from cut 3")
    page.status = dataclasses.replace(
        status, now=status.now + 23, attempt=2, events=tuple(story.events), sentence="Again."
    )
    browser.until(
        "the new attempt", "return document.querySelector('#sentence').innerText[0] === 'A'"
    )
    texts = browser.texts("#events-list .text")
    assert texts[:2] == ["goes on from cut 3", "attempt 2 has started"]
    assert len(texts) == len(status.events) + 2


def test_an_answer_that_is_no_status_is_not_shown(serve: Serve, browser: Browser) -> None:
    status = made.training()
    page = serve(status)
    browser.open(page)
    page.status = dataclasses.replace(status, application="", sentence="nonsense")
    browser.until("the trouble", "return document.body.dataset.live === 'away'")
    assert browser.text("#sentence") == status.sentence


def test_it_says_aloud_what_changes_and_not_every_figure(serve: Serve, browser: Browser) -> None:
    status = made.training()
    page = serve(status)
    browser.open(page)
    said = "return document.getElementById('announcer').textContent"
    assert browser.run(said) == status.sentence
    page.status = dataclasses.replace(status, now=status.now + 2, sentence="Training: more rows.")
    seen = "return document.getElementById('sentence').innerText === 'Training: more rows.'"
    browser.until("the next figures", seen)
    assert browser.run(said) == status.sentence
    page.status = made.succeeded(status.now + 4)
    browser.until("the end, aloud", f"{said}.startsWith('Succeeded')")


# ---------------------------------------------------------------- for every eye

CONTRAST = """
const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
  .map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
  .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
const ground = (e) => {
  for (; e; e = e.parentElement) {
    const c = rgb(getComputedStyle(e).backgroundColor);
    if (c.length < 4 || c[3] > 0) return c;
  }
};
return arguments[0].map((selector) => {
  const e = document.querySelector(selector);
  const [a, b] = [light(rgb(getComputedStyle(e).color)), light(ground(e))];
  return [selector, (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05)];
}).filter(([, ratio]) => ratio < 4.5);
"""


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", ["starting", "training", "large", "failed", "succeeded"])
def test_text_has_contrast(serve: Serve, browser: Browser, name: str, dark: bool) -> None:
    browser.screen(1280, dark=dark)
    browser.open(serve(MAKERS[name]()))
    selectors: list[Any] = ["#state", "#sentence", "#figures dt", "#facts dt", ".connection", "th"]
    selectors += {
        "starting": ["#sentence mark", 'tr[data-process="requested"] .word'],
        "training": ["#events-list .kind", '[data-heat="hot"] .amount', '[data-tone="news"] .kind'],
        "large": ['tr[data-process="failed"] .word', '[data-heat="warm"]', "a[href^=http]"],
        "failed": ["#cause-title", "#cause-help", "#cause-traceback"],
        "succeeded": ['[data-tone="good"] .kind', 'tr[data-process="finished"] td'],
    }[name]
    assert browser.run(CONTRAST, selectors) == []


def test_dark_is_dark(serve: Serve, browser: Browser) -> None:
    ground = "return getComputedStyle(document.body).backgroundColor"
    page = serve(made.training())
    browser.open(page)
    assert browser.run(ground) == "rgb(247, 248, 248)"
    browser.screen(1280, dark=True)
    assert browser.run(ground) == "rgb(18, 22, 26)"
