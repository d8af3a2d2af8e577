"""tests/messages.txt holds the wording of all messages; see .ci/messages.py."""

import messages


def test_the_wording_is_on_record():
    found, recorded = (
        messages.messages().splitlines(),
        messages.FILE.read_text("utf-8").splitlines(),
    )
    differences = [f"+ {line}" for line in found if line not in recorded]
    differences += [f"- {line}" for line in recorded if line not in found]
    assert found == recorded, "\n".join(["Run `make messages`.", *differences])


def test_kinds_of_text():
    source = """
raise UserError(f"{name!r} must be one of " "two. " + hint) from error
logger.warning("%d of them are cut.", count)
count: int = option(3, help="number " + "of rows")
warn("a", "b")
"""
    tree = messages.ast.parse(source)
    assert [line for node in messages.in_order(tree) for line in messages.message(node)] == [
        "  UserError: {name} must be one of two. {hint}",
        "  warning: %d of them are cut.",
        "  help: number of rows",
    ]
