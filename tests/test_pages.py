"""The runner of the pages, .ci/pages.py, on small pages."""

import pages
import pytest

PAGE = """
```python
from pathlib import Path
Path("made").write_text("on the page")
```
<!-- not run: needs Docker -->
```sh
exit 3
```
```bash
cat made; echo
echo "took 0.98 s,  score 1,200" >&2
```
Numbers within 5%:
```text
on the …
…
took 1.00 s, score 1,190
```
```python
print(Path("made").exists())
```
```text
True
```
"""


def run(folder, page):
    """Returns the exit status for a page."""
    (folder / "page.md").write_text(page, "utf-8")
    return pages.main([str(folder / "page.md")])


def test_a_page_that_shows_what_it_does(tmp_path, capsys):
    assert run(tmp_path, PAGE) == 0
    printed = capsys.readouterr().out
    assert "page.md:7: needs Docker" in printed
    assert "3 blocks run, 1 not run, 0 failed" in printed


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("1.00 s", "1.10 s", 10),  # a number beyond the tolerance
        ("within 5%", "as printed", 10),  # no tolerance
        ("```text\nTrue", "```text\nFalse", 20),
        ("cat made", "cat missing", 10),
        ("print(Path", "print(Pat", 20),
        ("needs Docker", "needs Docker -->\n\n<!-- chart", 9),  # no comment right above the block
        ("\n```python\nfrom", "\n```text\nTrue\n```\n```python\nfrom", 2),  # printed by nothing
    ],
)
def test_a_page_changed_by_hand(tmp_path, capsys, old, new, line):
    assert old in PAGE
    assert run(tmp_path, PAGE.replace(old, new, 1)) == 1
    assert f"page.md, line {line}: " in capsys.readouterr().out


def test_a_block_that_is_a_file(tmp_path):
    page = '```python title="app.py"\n1 / 0\n```\n```toml title="b.toml"\n[b]\n```\n'
    assert run(tmp_path, page + "```sh\ncat app.py b.toml\n```\n```text\n1 / 0\n[b]\n```\n") == 0
    assert not (tmp_path / "app.py").exists()  # the folder of the blocks is another


def test_every_page_is_in_the_order():
    found = pages.pages()
    assert [page.name for page in found[:3]] == ["README.md", "which-model.md", "finetuning.md"]
    assert len({page.resolve() for page in found}) == len(found) > 20
