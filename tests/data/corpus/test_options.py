import pickle

import pytest

from albert_tf.data.corpus.options import CorpusOptions
from albert_tf.errors import UserError


def test_options_can_be_sent_to_a_process():
    options = CorpusOptions(lines="sentences", bad_lines="skip", language="de")
    assert pickle.loads(pickle.dumps(options)) == options


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"lines": "words"}, "lines must be paragraphs or sentences. Received: 'words'"),
        ({"text_field": ""}, "text_field must be text .*not empty. Received: ''"),
        ({"max_document_bytes": 3}, "max_document_bytes must be 4 or more. Received: 3"),
    ],
)
def test_wrong_options(wrong, message):
    with pytest.raises(UserError, match=message):
        CorpusOptions(**wrong)


@pytest.mark.parametrize("language", ["../../x", "", "en\n", "e" * 99, "en us"])
def test_a_language_is_a_code(language):
    with pytest.raises(UserError, match="^language must be"):
        CorpusOptions(language=language)
    assert CorpusOptions(language="be-tarask").language == "be-tarask"
