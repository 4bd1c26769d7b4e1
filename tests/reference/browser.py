"""A headless Chromium that tells what a page wrote to the console and asked the network for."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--hide-scrollbars",
)


@dataclass
class Browser:
    driver: Any

    def open(self, path: Path, *, width: int = 1200, scheme: str = "light") -> None:
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        wishes = {
            "prefers-color-scheme": scheme,
            "prefers-reduced-motion": "reduce",
        }  # a click must not wait for scrolling
        features = [{"name": name, "value": value} for name, value in wishes.items()]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        self.driver.get_log("performance")
        self.driver.get_log("browser")
        self.driver.get(path.as_uri())

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    @property
    def console(self) -> list[str]:
        return [entry["message"] for entry in self.driver.get_log("browser")]

    @property
    def requests(self) -> list[str]:
        """Every address that was asked for since the page was opened, but for what the page itself holds."""
        messages = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        sent = [message["params"] for message in messages if message["method"] == "Network.requestWillBeSent"]
        return [one["request"]["url"] for one in sent if not one["request"]["url"].startswith("data:")]


@contextmanager
def chromium() -> Iterator[Browser]:
    """Skips where there is none: `make browser` installs it on Debian."""
    binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (binary and driver):
        pytest.skip("no chromium with chromedriver on the path; `make browser` installs them where apt-get may")
    options = Options()
    options.binary_location = binary
    for flag in FLAGS:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    started = webdriver.Chrome(options=options, service=Service(driver))
    try:
        yield Browser(started)
    finally:
        started.quit()
