"""A headless Chromium over its debugging pipe: pages at any width, in light and dark and on paper, and what they complain of."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

# The debugging pipe is on descriptors 3 and 4, whatever the numbers of ours are.
ON_3_AND_4 = """
import os, sys
mine, its = os.dup(int(sys.argv[1])), os.dup(int(sys.argv[2]))
while min(mine, its) < 5:
    mine, its = os.dup(mine), os.dup(its)
os.dup2(mine, 3)
os.dup2(its, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
NAMES = ("chromium", "chromium-browser", "google-chrome")


class Browser:
    """One page of one browser. A context manager; its profile is gone afterwards."""

    def __init__(self) -> None:
        program = next(filter(None, map(shutil.which, NAMES)), None)
        if program is None:
            raise FileNotFoundError("there is no Chromium here; on Debian: apt-get install chromium")
        self._profile = tempfile.TemporaryDirectory(prefix="grader-pages-", ignore_cleanup_errors=True)
        its_in, self._out = os.pipe()
        self._in, its_out = os.pipe()
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe"]
        command = [program, *options, f"--user-data-dir={self._profile.name}", "about:blank"]
        self._process = subprocess.Popen(
            [sys.executable, "-c", ON_3_AND_4, str(its_in), str(its_out), *command],
            pass_fds=[its_in, its_out],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(its_in)
        os.close(its_out)
        self._heard, self._number, self._session = b"", 0, ""
        self.complaints: list[str] = []
        self.requests: list[str] = []
        target = next(each for each in self.ask("Target.getTargets")["targetInfos"] if each["type"] == "page")
        self._session = self.ask("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "Accessibility"):
            self.ask(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._out)
        os.close(self._in)
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._profile.cleanup()

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command of the DevTools protocol and its answer; events that come meanwhile are noted."""
        self._number += 1
        word: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            word["sessionId"] = self._session
        os.write(self._out, json.dumps(word).encode() + b"\0")
        while True:
            said = self._hear()
            if said.get("id") == self._number:
                if "error" in said:
                    raise RuntimeError(f"{method}: {said['error']}")
                return dict(said["result"])

    def open(self, path: Path, width: int, height: int = 900, *, dark: bool = False, paper: bool = False) -> None:
        """Show the file at that width, in that colour scheme, as on a screen or as on paper."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.ask("Emulation.setEmulatedMedia", media="print" if paper else "screen", features=scheme)
        self.ask("Page.navigate", url=path.resolve().as_uri())
        while self._hear().get("method") != "Page.loadEventFired":
            pass

    def value(self, expression: str) -> Any:
        """What a JavaScript expression is in the page."""
        return self.ask("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def press_tab(self) -> None:
        """The Tab key, down and up."""
        for kind in ("keyDown", "keyUp"):
            self.ask("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9)

    def screenshot(self, to: Path) -> None:
        """The whole page as a PNG."""
        to.write_bytes(base64.b64decode(self.ask("Page.captureScreenshot", captureBeyondViewport=True)["data"]))

    def _hear(self) -> dict[str, Any]:
        while b"\0" not in self._heard:
            chunk = os.read(self._in, 1 << 20)
            if not chunk:
                raise EOFError("the browser has gone")
            self._heard += chunk
        line, _, self._heard = self._heard.partition(b"\0")
        said: dict[str, Any] = json.loads(line)
        match said.get("method"):
            case "Runtime.consoleAPICalled" | "Runtime.exceptionThrown" | "Log.entryAdded":
                self.complaints.append(json.dumps(said["params"])[:500])
            case "Network.requestWillBeSent":
                self.requests.append(said["params"]["request"]["url"])
        return said


# Luminance and contrast as WCAG 2 defines them; a background that lets through is looked for further out.
WEAK_TEXTS = """
(() => {
  const parse = c => { const m = c.match(/[\\d.]+/g).map(Number); return m.length > 3 && m[3] === 0 ? null : m.slice(0, 3); };
  const light = c => { const [r, g, b] = c.map(v => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
                       return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const ground = e => {
    for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c) return c; }
    return [255, 255, 255];
  };
  const weak = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node; (node = walker.nextNode());) {
    const e = node.parentElement;
    if (!node.textContent.trim() || e.closest('svg') || e.closest('style')) continue;
    const a = light(parse(getComputedStyle(e).color)), b = light(ground(e));
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) weak.push(node.textContent.trim().slice(0, 40) + ' ' + contrast.toFixed(2));
  }
  return weak;
})()
"""
