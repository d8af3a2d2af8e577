from pathlib import Path

assert accuracy > 0.75, accuracy
assert Path("reviews.tflite").stat().st_size > 100_000
