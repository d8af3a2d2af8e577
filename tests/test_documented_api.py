"""Everything on Hugging Face's documentation page of ALBERT works, or says what to write instead.

The rows are transformers 4.57's and 5.24's: signatures, defaults, fields and methods, of the page
itself and of the inherited methods that it leads to. A change removes no row.
"""

import inspect
import json
import re

import numpy as np
import pytest

import albert_tf
from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError
from albert_tf.huggingface import MODEL_METHODS, NAMES
from albert_tf.models import AlbertForMaskedLM, AlbertModel, ModelOutput
from albert_tf.models.base import PreTrainedModel
from albert_tf.text.encoding import BatchEncoding
from albert_tf.text.tokenizer import AlbertTokenizer

HEADS = (
    "Model",
    "ForPreTraining",
    "ForMaskedLM",
    "ForSequenceClassification",
    "ForMultipleChoice",
    "ForTokenClassification",
    "ForQuestionAnswering",
)


def parameters(row):
    """Returns the parameters in a table row as `inspect.Parameter` objects."""
    return inspect.signature(eval(f"(lambda {row}: None)")).parameters


def defaults(row):
    return {name: parameter.default for name, parameter in parameters(row).items()}


# Methods that work, with their documented arguments. Where a default differs, ours is in the row.
TOKENIZER = {
    "__call__": """text, text_pair=None, add_special_tokens=True, padding=False, truncation=None,
        max_length=None, stride=0, is_split_into_words=False, pad_to_multiple_of=None,
        padding_side=None, return_tensors=None, return_token_type_ids=None,
        return_attention_mask=None, return_overflowing_tokens=False,
        return_special_tokens_mask=False, return_offsets_mapping=False, return_length=False,
        verbose=True""",
    "add_special_tokens": "special_tokens_dict",
    "add_tokens": "new_tokens, special_tokens=False",
    "batch_decode": "sequences, skip_special_tokens=False, clean_up_tokenization_spaces=None",
    "build_inputs_with_special_tokens": "token_ids_0, token_ids_1=None",
    "convert_ids_to_tokens": "ids, skip_special_tokens=False",
    "convert_tokens_to_ids": "tokens",
    "convert_tokens_to_string": "tokens",
    "create_token_type_ids_from_sequences": "token_ids_0, token_ids_1=None",
    "decode": "token_ids, skip_special_tokens=False, clean_up_tokenization_spaces=None",
    "encode": "text, text_pair=None",
    "from_pretrained": "pretrained_model_name_or_path",
    "get_added_vocab": "",
    "get_special_tokens_mask": "token_ids_0, token_ids_1=None, already_has_special_tokens=False",
    "get_vocab": "",
    "num_special_tokens_to_add": "pair=False",
    "pad": """encoded_inputs, padding=True, max_length=None, pad_to_multiple_of=None,
        padding_side=None, return_attention_mask=None, return_tensors=None, verbose=True""",
    "push_to_hub": "repo_id",
    "save_pretrained": "save_directory",
    "save_vocabulary": "save_directory, filename_prefix=None",
    "tokenize": "text, pair=None, add_special_tokens=False",
}
BY_ROW = "batch_index=0"
BY_TOKEN = "batch_or_token_index, token_index=None"
BY_WORD = "batch_or_word_index, word_index=None, sequence_index=0"
BY_CHARACTER = "batch_or_char_index, char_index=None, sequence_index=0"
ENCODING = {
    "char_to_token": BY_CHARACTER,
    "char_to_word": BY_CHARACTER,
    "sequence_ids": BY_ROW,
    "token_to_chars": BY_TOKEN,
    "token_to_sequence": BY_TOKEN,
    "token_to_word": BY_TOKEN,
    "word_ids": BY_ROW,
    "word_to_chars": BY_WORD,
    "word_to_tokens": BY_WORD,
}
CONFIG = {
    "__init__": """vocab_size=30000, embedding_size=128, hidden_size=4096, num_hidden_layers=12,
        num_hidden_groups=1, num_attention_heads=64, intermediate_size=16384, inner_group_num=1,
        hidden_act="gelu_new", hidden_dropout_prob=0, attention_probs_dropout_prob=0,
        max_position_embeddings=512, type_vocab_size=2, initializer_range=0.02,
        layer_norm_eps=1e-12, classifier_dropout_prob=0.1, position_embedding_type="absolute",
        pad_token_id=0, bos_token_id=2, eos_token_id=3""",
    "from_dict": "config_dict",
    "from_json_file": "json_file",
    "from_pretrained": "pretrained_model_name_or_path",
    "save_pretrained": "save_directory, push_to_hub=False",
    "to_dict": "",
    "to_diff_dict": "",
    "to_json_file": "json_file_path, use_diff=True",
    "to_json_string": "use_diff=True",
}
MODEL = {
    "from_pretrained": """pretrained_model_name_or_path, config=None,
        ignore_mismatched_sizes=False""",
    "get_input_embeddings": "",
    "gradient_checkpointing_disable": "",
    "gradient_checkpointing_enable": "",
    "num_parameters": "only_trainable=False, exclude_embeddings=False",
    "push_to_hub": "repo_id",
    "resize_token_embeddings": "new_num_tokens=None, pad_to_multiple_of=None",
    "save_pretrained": "save_directory, push_to_hub=False",
}
METHODS = {
    AlbertTokenizer: TOKENIZER,
    BatchEncoding: ENCODING,
    AlbertConfig: CONFIG,
    PreTrainedModel: MODEL,
    ModelOutput: {"to_tuple": ""},
}
# Methods of which the error says what to write.
INSTEAD = {
    AlbertTokenizer: """apply_chat_template as_target_tokenizer batch_encode_plus
        clean_up_tokenization encode_message_with_chat_template encode_plus get_chat_template
        prepare_for_model prepare_for_tokenization prepare_seq2seq_batch preprocess_text
        register_for_auto_class sanitize_special_tokens set_truncation_and_padding
        train_new_from_iterator truncate_sequences""",
    BatchEncoding: "convert_to_tensors to tokens words",
    AlbertConfig: "get_config_dict push_to_hub register_for_auto_class update update_from_string",
    PreTrainedModel: """add_adapter add_model_tags create_model_card cuda
        disable_input_require_grads enable_input_require_grads estimate_tokens eval
        floating_point_ops forward generate get_bias get_extended_attention_mask get_head_mask
        get_lm_head get_memory_footprint get_output_embeddings get_output_layer_with_bias
        get_position_embeddings get_prefix_bias_name half hf_compute_loss init_weights
        invert_attention_mask load_adapter load_state_dict named_parameters parameters post_init
        prepare_tf_dataset prune_heads register_for_auto_class resize_position_embeddings serving
        set_attn_implementation set_bias set_input_embeddings set_output_embeddings state_dict
        tie_weights to train""",
}
KERAS_HUB = "from_preset save_to_preset"
INSTEAD[AlbertTokenizer] += f" {KERAS_HUB}"
INSTEAD[PreTrainedModel] += f" {KERAS_HUB} enable_lora"
OF_TORCH = """cuda eval forward half load_state_dict named_parameters parameters state_dict to
    train"""
TOKENIZER_ATTRIBUTES = """all_special_ids all_special_tokens bos_token bos_token_id cls_token
    cls_token_id eos_token eos_token_id is_fast mask_token mask_token_id max_len_sentences_pair
    max_len_single_sentence model_input_names model_max_length pad_token pad_token_id
    pad_token_type_id padding_side sep_token sep_token_id special_tokens_map truncation_side
    unk_token unk_token_id vocab vocab_file vocab_size"""
TOKENIZER_DEFAULTS = defaults(
    """do_lower_case=True, remove_space=True, keep_accents=False, bos_token="[CLS]",
    eos_token="[SEP]", unk_token="<unk>", sep_token="[SEP]", pad_token="<pad>",
    cls_token="[CLS]", mask_token="[MASK]", sp_model_kwargs=None, add_prefix_space=True,
    trim_offsets=True, tokenizer_file=None, vocab=None, clean_up_tokenization_spaces=False,
    split_special_tokens=False, additional_special_tokens=None, padding_side="right",
    truncation_side="right", model_max_length=512"""
)
# Documented attributes of every configuration, with the values that an ALBERT has.
CONFIG_ATTRIBUTES = defaults(
    """model_type="albert", tie_word_embeddings=True, return_dict=True, output_attentions=False,
    output_hidden_states=False, torchscript=False, is_decoder=False, is_encoder_decoder=False,
    add_cross_attention=False, pruned_heads={}, problem_type=None, num_labels=2,
    id2label={0: "LABEL_0", 1: "LABEL_1"}, label2id={"LABEL_0": 0, "LABEL_1": 1}"""
)
CONFIG_BOOKKEEPING = defaults(
    """name_or_path="my-model", architectures=["AlbertModel"], use_cache=True,
    finetuning_task=None, task_specific_params=None, chunk_size_feed_forward=0,
    tie_encoder_decoder=False, cross_attention_hidden_size=None, tokenizer_class=None,
    prefix=None, sep_token_id=3, decoder_start_token_id=None, torch_dtype=None, dtype="float32",
    transformers_version="4.57.6", use_bfloat16=False, tf_legacy_loss=False"""
)
LOADING_DEFAULTS = defaults(
    """config=None, cache_dir=None, ignore_mismatched_sizes=False, force_download=False,
    local_files_only=False, token=None, revision="main", use_safetensors=None,
    weights_only=True, from_pt=False, from_tf=False, from_flax=False, output_loading_info=False,
    output_attentions=False, output_hidden_states=False, return_dict=True,
    trust_remote_code=False, low_cpu_mem_usage=None, torch_dtype=None, dtype=None,
    device_map=None, attn_implementation=None, quantization_config=None, load_in_8bit=False,
    load_in_4bit=False, variant=None, subfolder="", state_dict=None"""
)
SAVING_DEFAULTS = defaults(
    """is_main_process=True, state_dict=None, push_to_hub=False, max_shard_size="5GB",
    safe_serialization=True, variant=None, save_peft_format=True, saved_model=False, version=1,
    signatures=None"""
)
# Each head's labels and outputs. `loss` comes first, `hidden_states` and `attentions` last.
LABELS = {
    "Model": {},
    "ForPreTraining": {"labels": [[3, -100, 4]], "sentence_order_label": [1]},
    "ForMaskedLM": {"labels": [[3, -100, 4]]},
    "ForSequenceClassification": {"labels": [1]},
    "ForMultipleChoice": {"labels": [1]},
    "ForTokenClassification": {"labels": [[1, 0, 1]]},
    "ForQuestionAnswering": {"start_positions": [1], "end_positions": [2]},
}
OUTPUTS = {
    "Model": ["last_hidden_state", "pooler_output"],
    "ForPreTraining": ["prediction_logits", "sop_logits"],
    "ForQuestionAnswering": ["start_logits", "end_logits"],
}
INPUTS = "input_ids attention_mask token_type_ids position_ids inputs_embeds"


@pytest.fixture(scope="module")
def small_config(small_config):
    return small_config.replace(num_hidden_layers=1)


def test_names():
    for prefix in ("Albert", "TFAlbert", "FlaxAlbert"):
        for head in HEADS:
            assert getattr(albert_tf, prefix + head) is getattr(albert_tf, f"Albert{head}")
            auto = prefix.replace("Albert", "Auto") + head.replace("For", "ModelFor")
            assert getattr(albert_tf, auto) is getattr(albert_tf, f"Albert{head}")
        assert getattr(albert_tf, f"{prefix}ForPreTrainingOutput") is ModelOutput
    for name in ("AlbertTokenizer", "AlbertTokenizerFast", "AutoTokenizer"):
        assert getattr(albert_tf, name) is AlbertTokenizer
    assert albert_tf.BertTokenizerFast is albert_tf.WordPieceTokenizer
    assert albert_tf.AlbertConfig is albert_tf.AutoConfig is AlbertConfig


def test_names_that_say_what_to_write():
    """`from … import` would replace the message of an AttributeError."""
    names = [*NAMES, "TFTrainer", "FlaxAlbertPreTrainedModel", "TFBertModel", "BertConfig"]
    for name in [*names, "TFBertForSequenceClassification", "TFBertPreTrainedModel"]:
        with pytest.raises(ImportError, match=rf"^albert_tf has no {name}\. .+[.]$") as raised:
            exec(f"from albert_tf import {name}")
        way_out = str(raised.value).partition(". ")[2]
        ours = re.findall(r"Albert[A-Z]\w+|Warmup\w+|build_\w+|\w+_batches", way_out)
        assert {*ours} <= {*albert_tf.__all__}
    with pytest.raises(ImportError, match="cannot import name 'BertForPoetry'"):
        exec("from albert_tf import BertForPoetry")


@pytest.mark.parametrize(
    ("cls", "name"), [(cls, name) for cls, methods in METHODS.items() for name in methods]
)
def test_methods_and_arguments(cls, name):
    own = dict(inspect.signature(getattr(cls, name)).parameters)
    own.pop("self", None)
    for parameter in parameters(METHODS[cls][name]).values():
        assert own[parameter.name].default == parameter.default


def test_arguments_by_position():
    """Rows with arguments by position have ours in the same places."""
    assert list(inspect.signature(AlbertConfig).parameters)[:20] == [
        *parameters(CONFIG["__init__"])
    ]
    for cls, methods in ((BatchEncoding, ENCODING), (AlbertTokenizer, TOKENIZER)):
        for name, row in methods.items():
            own = [
                each for each in inspect.signature(getattr(cls, name)).parameters if each != "self"
            ]
            count = 2 if name == "__call__" else len(parameters(row))
            assert own[:count] == [*parameters(row)][:count]


@pytest.mark.parametrize(
    ("cls", "name"), [(cls, name) for cls, names in INSTEAD.items() for name in names.split()]
)
def test_methods_that_say_what_to_write(cls, name):
    method = getattr(cls, name)
    if "albert_tf" not in method.__module__:
        assert name in OF_TORCH.split()  # a Keras model on torch is a module of torch
        return
    with pytest.raises(UserError, match=rf"^{name}\(\) is not supported\. .+ .+[.]$") as raised:
        method("anything", option=1)
    assert "\n" not in str(raised.value)


def test_attributes_that_say_what_to_write(small_config, tiny_tokenizer):
    model = AlbertModel(small_config)
    names = [(model, name) for name in MODEL_METHODS if name[0] == "."]
    for owner, name in [*names, (tiny_tokenizer, ".sp_model")]:
        with pytest.raises(AttributeError, match=f"^{name[1:]} doesn.t exist[.] .+[.]$"):
            getattr(owner, name[1:])
    model.num_labels = 3  # as in a subclass
    assert model.num_labels == 3


def test_attributes_of_a_tokenizer(tiny_tokenizer):
    for name in TOKENIZER_ATTRIBUTES.split():
        assert getattr(tiny_tokenizer, name) is not None
    assert tiny_tokenizer.is_fast


def test_the_constructor_of_a_tokenizer(tiny_tokenizer):
    own = AlbertTokenizer(tiny_tokenizer.vocab_file, **TOKENIZER_DEFAULTS)
    assert own.settings == tiny_tokenizer.settings
    for name, value in TOKENIZER_DEFAULTS.items():
        if hasattr(own, name) and name != "vocab":
            assert getattr(own, name) == value or value is None


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, "<s>") for name in TOKENIZER_DEFAULTS if name.endswith("_token")]
    + [(name, False) for name in ("remove_space", "add_prefix_space", "trim_offsets")]
    + [("sp_model_kwargs", {"alpha": 0.1}), ("tokenizer_file", "x"), ("vocab", [("a", 0.0)])],
)
def test_other_values_for_a_tokenizer(name, value):
    with pytest.raises(UserError, match=f"{name} must be .* or left out. Received: {name}=.*[.] "):
        AlbertTokenizer(b"", **{name: value})


def test_a_tokenizer_is_saved_with_default_options(tiny_tokenizer, tmp_path):
    options = {"legacy_format": None, "filename_prefix": None, "push_to_hub": False}
    assert tiny_tokenizer.save_pretrained(tmp_path, **options)
    with pytest.raises(UserError, match=r"push_to_hub=True. Call push_to_hub\(repo_id\)"):
        tiny_tokenizer.save_pretrained(tmp_path, push_to_hub=True)


def test_a_configuration_takes_every_documented_argument():
    documented = defaults(CONFIG["__init__"])
    assert AlbertConfig(**documented, **CONFIG_ATTRIBUTES, **CONFIG_BOOKKEEPING) == AlbertConfig()
    for name, value in (documented | CONFIG_ATTRIBUTES).items():
        assert getattr(AlbertConfig(), name) == value
    file = json.loads(json.dumps(documented | CONFIG_BOOKKEEPING))
    assert AlbertConfig.from_dict(file, num_labels=3) == AlbertConfig(num_labels=3)


@pytest.mark.parametrize(
    "argument",
    [
        {"num_classes": 3},
        {"hidden_dim": 20},
        {"return_dict": False},
        {"output_attentions": True},
        {"output_hidden_states": True},
        {"torchscript": True},
        {"is_decoder": True},
        {"add_cross_attention": True},
        {"pruned_heads": {0: [1]}},
        {"tie_word_embeddings": False},
        {"position_embedding_type": "relative_key"},
        {"model_type": "bert"},
    ],
    ids=str,
)
def test_values_that_no_albert_has(argument):
    (name,) = argument
    for make in (AlbertConfig, AlbertConfig().replace):
        with pytest.raises(UserError, match=f"{name} must be "):
            make(**argument)


def test_a_configuration_as_json(small_config, tmp_path):
    diff = small_config.to_diff_dict()
    assert diff["model_type"] == "albert"
    assert "num_hidden_groups" not in diff
    assert AlbertConfig.from_dict(diff) == small_config
    assert json.loads(small_config.to_json_string()) == diff
    assert json.loads(small_config.to_json_string(use_diff=False)) == small_config.to_dict()
    for use_diff in (True, False):
        small_config.to_json_file(tmp_path / "config.json", use_diff)
        assert AlbertConfig.from_json_file(tmp_path / "config.json") == small_config


def test_a_configuration_saved_in_a_models_folder(small_config, tmp_path):
    AlbertForMaskedLM(small_config).save_pretrained(tmp_path)
    small_config.replace(num_labels=4).save_pretrained(tmp_path)
    assert isinstance(albert_tf.load_pretrained(tmp_path), AlbertForMaskedLM)
    (tmp_path / "config.json").write_text('{"model_type": "bert", "architectures": ["BertModel"]}')
    small_config.save_pretrained(tmp_path)
    assert "architectures" not in json.loads((tmp_path / "config.json").read_text())


def test_loading_and_saving_with_every_default(small_config, tmp_path):
    AlbertModel(small_config).save_pretrained(save_directory=tmp_path, **SAVING_DEFAULTS)
    model = AlbertModel.from_pretrained(pretrained_model_name_or_path=tmp_path, **LOADING_DEFAULTS)
    assert model.newly_initialized == []
    for name, value in {"safe_serialization": False, "saved_model": True}.items():
        with pytest.raises(UserError, match=f"{name} must be .*Received: {name}={value}"):
            model.save_pretrained(tmp_path, **{name: value})
    without = AlbertModel.from_pretrained(tmp_path, add_pooling_layer=False)
    assert without.pooler is None
    assert model.num_parameters() - without.num_parameters() == 20 * 20 + 20
    assert model.num_parameters() - model.num_parameters(exclude_embeddings=True) == 6 * (
        31 + 11 + 2
    )
    model.resize_token_embeddings(pad_to_multiple_of=8)
    assert model.config.vocab_size == 32


@pytest.mark.parametrize("head", HEADS)
def test_calls_and_outputs(small_config, head):
    model = getattr(albert_tf, f"Albert{head}")(small_config)
    documented = [*INPUTS.split(), *LABELS[head], "output_attentions", "output_hidden_states"]
    arguments = inspect.signature(model.call).parameters
    assert [name for name in arguments if name in documented] == documented
    ids = np.array([[2, 7, 3]])
    if head == "ForMultipleChoice":
        ids = np.stack([ids, ids], axis=1)
    labels = {name: np.array(values) for name, values in LABELS[head].items()}
    requests = {"output_attentions": True, "output_hidden_states": True, "return_dict": True}
    outputs = model(ids, **labels, **requests, head_mask=None, train=False)
    own = OUTPUTS.get(head, ["logits"])
    expected = [*(["loss"] if labels else []), *own]
    assert [*outputs] == [*expected, "hidden_states", "attentions"]
    for name in outputs:
        assert getattr(outputs, name) is outputs[name]
    assert len(outputs.to_tuple()) == len(outputs)
    assert outputs[0] is outputs[expected[0]]
    without = model(ids, output_attentions=None, output_hidden_states=None, return_dict=None)
    assert [*without] == own
    assert without.loss is without.hidden_states is without.attentions is None
