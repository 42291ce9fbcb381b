"""What a visitor sees first: the landing page, the README, the comparison and the tutorial."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def text_of(page):
    return (ROOT / page).read_text(encoding="utf-8")


def test_the_landing_page_has_install_line_code_picture_result_and_repository():
    page = text_of("docs/index.md")
    above = page.partition("| you want to |")[0]
    assert "```sh\npip install " in above
    assert "```python\nfrom pencil import" in above
    (picture,) = re.findall(r"!\[.*?\]\((figures/.*?)\)", above)
    assert (ROOT / "docs" / picture).is_file()
    assert re.search(r"\*\*.*test accuracy rises from [\d.]+ %.* to [\d.]+ %", above)
    assert "[repository](../README.md)" in page


def test_data_in_the_readme_leads_to_the_kinds_of_data():
    links = dict(re.findall(r"\[([^\]]*)\]\((docs/[^)#]*)", text_of("README.md")))
    assert links["Your own data"] == "docs/how-to/data.md"
    assert links["Data in shards"] == "docs/data.md"
    for path in links.values():
        assert (ROOT / path).is_file(), path


def test_the_comparison_opens_with_the_result():
    opening = text_of("docs/comparison.md").partition("\n## ")[0]
    assert "`auto`, this package's default on features, has a higher test accuracy than every" in opening
    assert "(figures/comparison.png)" in opening
    assert "| data | noise | cross entropy | PENCIL |" in opening


@pytest.mark.parametrize("number", range(3))
def test_each_snippet_of_the_tutorial_imports_what_it_uses(number):
    snippet = re.findall(r"```python\n(.*?)```", text_of("docs/tutorial.md"), re.DOTALL)[number]
    for module in ("csv", "random"):
        assert (f"import {module}\n" in snippet) is (f"{module}." in snippet)
