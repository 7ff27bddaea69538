"""Features of texts with a small BERT, each text computed alone; and the real MiniLM (slow)."""

import numpy as np
import pytest
import torch
import transformers
from experiments.features import cache as cache_module
from experiments.features import extract, text_features
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "good", "bad", "film", "##s", "very", "!")
UNKNOWN, BEFORE, AFTER = 1, 2, 3


@pytest.fixture
def minilm(tmp_path, monkeypatch, cache):
    """A small BERT and its tokenizer in a folder, in the place of MiniLM."""
    folder = tmp_path / "bert"
    vocabulary = {word: k for k, word in enumerate(WORDS)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", AFTER), ("[CLS]", BEFORE))
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        model_max_length=512,
    ).save_pretrained(folder)
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(WORDS),
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=40,
        initializer_range=0.5,
    )
    network = transformers.BertModel(config).eval()
    network.save_pretrained(folder)
    monkeypatch.setattr(extract, "minilm_folder", lambda: (folder, "made up", "01" * 32))
    return network


def mean_token(network, words):
    """One text, without padding: the mean of its tokens' states, of norm one."""
    numbers = [WORDS.index(word) if word in WORDS else UNKNOWN for word in words]
    with torch.inference_mode():
        given = torch.tensor([[BEFORE, *numbers, AFTER]])
        mean = network(input_ids=given).last_hidden_state[0].numpy().mean(axis=0)
    return mean / np.sqrt((mean**2).sum())


TEXTS = {
    "A very, very good film!": ("a", "very", ",", "very", "good", "film", "!"),
    "bad films": ("bad", "film", "##s"),
    "": (),
    "bad": ("bad",),
}


def test_texts_are_the_means_of_their_tokens(minilm):
    """Together in a batch, each as if it were alone: padding changes nothing."""
    found = text_features(list(TEXTS))
    expected = [mean_token(minilm, words) for words in TEXTS.values()]
    np.testing.assert_allclose(found.values, expected, atol=2e-6)
    assert found.provenance["weights_sha256"] == "01" * 32
    assert np.abs(expected[1] - expected[3]).max() > 0.01


def test_long_texts_are_cut_off(minilm):
    """After 256 tokens, of which two are the marks at the ends."""
    found = text_features(["very " * 253 + "bad good good", "very " * 253 + "bad"]).values
    np.testing.assert_allclose(found[0], found[1], atol=2e-6)
    other = text_features(["very " * 254]).values
    assert np.abs(other - found[0]).max() > 1e-4


def test_texts_are_computed_once(minilm, monkeypatch):
    first = text_features(["bad", "good"])

    def unwanted(*_):
        raise AssertionError("loaded again")

    monkeypatch.setattr(transformers.AutoModel, "from_pretrained", unwanted)
    np.testing.assert_array_equal(text_features(("bad", "good")).values, first.values)
    with pytest.raises(AssertionError, match="loaded again"):
        text_features(["badgood", ""])  # the same letters in a row


@pytest.mark.parametrize("bad", ["a good film", ["good", None], [b"good"]])
def test_texts_that_are_none(bad):
    with pytest.raises(ValueError, match=r"texts must be a sequence of .*strings, got texts="):
        text_features(bad)


def test_no_texts_at_all(minilm):
    with pytest.raises(ValueError, match="texts must"):
        text_features([])


@pytest.mark.slow
def test_the_real_minilm_agrees_with_its_documentation(tmp_path, monkeypatch):
    """The three sentences, and their cosines, on the first page of sbert.net."""
    monkeypatch.setattr(cache_module, "cache_folder", lambda: tmp_path)  # for the features only
    sentences = [
        "The weather is lovely today.",
        "It's so sunny outside!",
        "He drove to the stadium.",
    ]
    found = text_features(sentences).values
    assert found.shape == (3, 384)
    published = [[1, 0.6660, 0.1046], [0.6660, 1, 0.1411], [0.1046, 0.1411, 1]]
    np.testing.assert_allclose(found @ found.T, published, atol=1e-4)
