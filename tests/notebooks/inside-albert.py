assert same_kind > 0.8, same_kind
assert in_ten[0] < 0.2 and in_ten[-1] > 0.4, in_ten
