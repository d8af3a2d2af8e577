assert history.epoch[-1] == 19, history.epoch
assert (result["team"] == result["predicted"]).mean() > 0.75, result
assert list(new["team"]) == ["product", "delivery"], new
assert (predicted == expected).mean() > 0.75, predicted.mean()
