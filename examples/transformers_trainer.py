"""PENCIL in Hugging Face's Trainer: a small BERT from scratch on made-up sentences.

    python examples/transformers_trainer.py

A sentence of class c holds many words of class c's own; 30 % of the labels are drawn anew. Prints how many are right
before and after.
"""

from __future__ import annotations

import tempfile
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, TrainingArguments, set_seed

from pencil import LabelLearner, Pencil, three_phases
from pencil.integrations.hugging_face_trainer import LabelTrainer

CLASSES, WORDS, LENGTH = 4, 80, 12


class Sentences(Dataset[dict[str, Any]]):
    """Items with their row number."""

    def __init__(self, words: Tensor) -> None:
        self.words = words

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"input_ids": self.words[index], "index": index}


def noisy_sentences(count: int = 640, rate: float = 0.3) -> tuple[Tensor, Tensor, Tensor]:
    """Words (N, L), their noisy and their true labels (N,)."""
    generator = torch.Generator().manual_seed(0)
    true = torch.randint(CLASSES, (count,), generator=generator)
    own = true[:, None] * (WORDS // CLASSES) + torch.randint(
        WORDS // CLASSES, (count, LENGTH), generator=generator
    )
    words = torch.where(
        torch.rand(count, LENGTH, generator=generator) < 0.6,
        own,
        torch.randint(WORDS, (count, LENGTH), generator=generator),
    )
    other = torch.randint(CLASSES, (count,), generator=generator)
    return words, torch.where(torch.rand(count, generator=generator) < rate, other, true), true


def main() -> tuple[float, float]:
    """Train; the share of right labels before and after."""
    set_seed(0)
    words, noisy, true = noisy_sentences()
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2}
    model = BertForSequenceClassification(BertConfig(vocab_size=WORDS, num_labels=CLASSES, **sizes))
    learner = LabelLearner(Pencil(), noisy, three_phases(3, 12, 1, learning_rate=0.003, finetune_rate=0.001))
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(
            output_dir=folder,
            num_train_epochs=16,
            per_device_train_batch_size=32,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            use_cpu=True,
        )
        LabelTrainer(learner=learner, model=model, args=args, train_dataset=Sentences(words)).train()

    suggested = learner.labels().suggested
    before, after = (float((labels == true).float().mean()) for labels in (noisy, suggested))
    print(f"right labels: {before:.1%} before, {after:.1%} after")
    return before, after


if __name__ == "__main__":
    main()
