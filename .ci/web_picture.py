"""Draws docs/web.png: a page of `albert-tf export web` in Chromium, on a desktop and on a phone.

make web-picture SITE=demo-output/site
"""

import functools
import http.server
import io
import shutil
import sys
import threading
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "web.png"
HEIGHT, SCALE = 620, 2
SCREENS = {"light": 760, "dark": 390}  # widths in pixels
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")


class Handler(http.server.SimpleHTTPRequestHandler):
    """Isolates the page, so that it can use several threads."""

    def end_headers(self):
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
        super().end_headers()

    def log_message(self, *_):
        pass


def main(site):
    handler = functools.partial(Handler, directory=site)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    picture = Image.new("RGB", (SCALE * sum(SCREENS.values()), SCALE * HEIGHT))
    left = 0
    with sync_playwright() as playwright:
        program = next(filter(None, map(shutil.which, CHROMIUM)))
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for scheme, width in SCREENS.items():
            page = browser.new_page(
                viewport={"width": width, "height": HEIGHT},
                device_scale_factor=SCALE,
                color_scheme=scheme,
            )
            page.goto(f"http://127.0.0.1:{server.server_port}/")
            page.wait_for_selector("#result[aria-busy=false]")
            picture.paste(Image.open(io.BytesIO(page.screenshot())), (SCALE * left, 0))
            left += width
    picture.quantize(dither=Image.Dither.NONE).save(PICTURE, optimize=True)


if __name__ == "__main__":
    main(sys.argv[1])
