"""Hashed n-grams as features of texts."""

import pytest
import torch

from pencil.data import Image, Record, Text
from pencil.embed import open_encoder
from pencil.embed.ngrams import NGrams, character_hashes, word_hashes
from pencil.errors import DataError

TEXTS = [Text("How far is Denver from Aspen?"), Text("Who was Galileo?"), Text("¿Quién fue Galileo? 🦉")]


def test_rows_have_length_one_and_do_not_depend_on_their_batch():
    encoder = open_encoder("ngrams")
    together = encoder.encode(TEXTS)
    assert together.shape == (3, encoder.size)
    assert together.dtype == torch.float32
    torch.testing.assert_close(together.norm(dim=1), torch.ones(3), atol=0.2, rtol=0)
    alone = torch.cat([encoder.encode([text]) for text in TEXTS])
    assert torch.equal(together, alone)


def test_texts_that_share_words_are_nearer():
    near, far, other = NGrams().encode(
        [Text("who was galileo"), Text("how high is mount etna"), Text("Who was Galilei?")]
    )
    assert near @ other > 0.4 > near @ far


def test_n_grams_are_runs_of_words_and_of_characters():
    assert len(word_hashes("a b c")) == 3
    assert len(character_hashes("abc")) == 3 + 2 + 1  # " abc ", of 3, 4 and 5 characters
    assert set(word_hashes("b c")) < set(word_hashes("a b c"))
    assert character_hashes("a  b").tolist() == character_hashes(" a\tb\n").tolist()


def test_an_empty_text_has_no_features_and_a_record_is_a_text():
    assert not NGrams().encode([Text("")]).any()
    record, text = NGrams().encode([Record({"size": 3, "note": "tall"}), Text("size: 3\nnote: tall")])
    assert torch.equal(record, text)


def test_images_are_refused():
    with pytest.raises(DataError, match="ngrams encodes texts, not images"):
        NGrams().encode([Image(torch.zeros(3, 2, 2))])
