"""The review page in a browser, by keys."""

from selenium import webdriver


class Page:
    def __init__(self, browser):
        self.browser = browser

    def text(self, name):
        return self.browser.execute_script("return document.getElementById(arguments[0]).textContent", name)

    def until(self, condition):
        """Wait in the page itself: quicker than asking again and again."""
        script = """
            const [condition, done] = arguments, test = new Function("return " + condition);
            (function look() { test() ? done() : setTimeout(look, 5); })();
        """
        self.browser.execute_async_script(script, condition)

    def press(self, *keys):
        webdriver.ActionChains(self.browser, duration=0).send_keys(*keys).perform()

    def ready(self):
        self.until("page.ready && !page.busy")

    @property
    def item(self):
        return self.browser.execute_script("return page.item")

    def open(self, server):
        self.browser.get(f"{server.base}/#{server.token}")
        self.ready()

    @property
    def rows(self):
        """The rows on the screen."""
        return self.browser.execute_script("return page.items.map((item) => item.row)")

    def decide(self, key):
        """Press a key and wait for the next item; returns what was on the page."""
        before = self.item
        self.press(key)
        self.until(f"(page.item === null || page.item.row !== {before['row']}) && !page.busy")
        return before

    def complaints(self):
        return [entry["message"] for entry in self.browser.get_log("browser") if entry["level"] == "SEVERE"]
