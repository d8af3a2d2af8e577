assert correct > 0.8, correct
assert (found["answer"], found["start"]) == ("Peter", long_text.index("Peter"))
assert best.argmax() == starts[:, 0].argmin() == 3, starts[:, 0]
answer = ask(question="Where was it?", context=text)
assert served["answer"].numpy()[0].decode() == answer["answer"]
assert served["start"].numpy()[0] == answer["start"] == text.index(answer["answer"])
