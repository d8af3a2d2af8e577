"""Writes a tiny classifier with random weights, using only the installed package."""

import sys
from pathlib import Path

import albert_tf
from albert_tf.assets import reviews
from albert_tf.config import AlbertConfig
from albert_tf.models import AlbertForSequenceClassification
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.text.vocabulary import train_vocabulary

folder = Path(sys.argv[1])
assert Path(sys.prefix) in Path(albert_tf.__file__).parents, albert_tf.__file__

lines = (reviews() / "train.tsv").read_text(encoding="utf-8").splitlines()[1:]
folder.mkdir(parents=True)
vocabulary = folder.with_suffix(".vocabulary")
vocabulary.write_bytes(train_vocabulary([line.split("\t")[0] for line in lines], vocab_size=500))

tokenizer = AlbertTokenizer(vocabulary)
tokenizer.save_pretrained(folder)
config = AlbertConfig.from_size(
    "tiny", vocab_size=len(tokenizer), id2label={0: "negative", 1: "positive"}
)
AlbertForSequenceClassification(config).save_pretrained(folder)
