assert accuracy["dynamic"] > 0.75, accuracy
assert agreement["none"] == 1 and agreement["dynamic"] > 0.9, agreement
assert sizes["dynamic"] < sizes["float16"] < sizes["none"], sizes
assert 0 < memory["dynamic"][1] < memory["none"][1], memory
assert all(len(values) == len(lengths) for values in times.values())
