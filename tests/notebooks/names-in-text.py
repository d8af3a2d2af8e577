assert history.history["val_entity_f1"][-1] > 0.7, history.history
assert "[Zurich: LOC" in marked(on_phone, TEXT), marked(on_phone, TEXT)
assert Path("names.tflite.labels.txt").read_text("utf-8").split() == labels
