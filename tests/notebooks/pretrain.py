from pathlib import Path

assert list(losses) == [25, 50, 75, 100]
assert losses[100] < losses[25] < 6, losses  # 9.2 is the logarithm of 10,000
assert classifier.newly_initialized == ["classifier"]
assert Path("my-model/curves.png").stat().st_size > 10_000
