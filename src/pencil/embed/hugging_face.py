"""Models in the layout of transformers: a folder, or a name on the Hugging Face hub.

Weights are read from safetensors alone, and code of a model is never run. Pooling and preprocessing are those of the
model's own files.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from pencil.data import Image, Shown, as_text
from pencil.embed.network import Batch, FrozenNetwork, frozen_network
from pencil.embed.preprocess import Preprocessing
from pencil.errors import ConfigError
from pencil.imports import need
from pencil.reading import read_json

VOLATILE = ("_name_or_path", "transformers_version", "architectures", "dtype", "torch_dtype")
"""What differs between two copies of the same model."""
POOLINGS = ("mean", "cls")
KNOWN_MODULES = ("Transformer", "Pooling", "Normalize")
"""Steps of a sentence encoder that are done here."""


def open_transformers(name: str, device: str = "cpu") -> FrozenNetwork:
    """A vision tower or a text encoder: ``transformers:NAME_OR_FOLDER``."""
    return open_hugging_face(name.partition(":")[2], device, label=name)


def open_hugging_face(model: str, device: str, *, label: str) -> FrozenNetwork:
    """A vision tower or a text encoder.

    Args:
        model: A folder, or a name on the hub.
        device: Where to compute.
        label: The encoder's name in the settings.
    """
    place = _checked_place(model, label)
    with quietly(), _explaining(label, place):
        network, config, missing = _network(place)
    _drop_unused_pooler(network)
    lacking = sorted(key for key in missing if key in network.state_dict())
    if lacking:
        raise ConfigError(
            f"embedding model {label!r}: its weights lack {len(lacking)} parameters, such as {lacking[0]}; "
            "give the folder of a pretrained model"
        )
    build = {"pixel_values": _vision, "input_ids": _text}.get(network.main_input_name)
    if build is None:
        raise ConfigError(
            f"embedding model {label!r} takes {network.main_input_name}, neither images nor texts; use a function of "
            "your own: --embed module:function"
        )
    plain = {key: value for key, value in config.to_dict().items() if key not in VOLATILE}
    return build(label, place, network, plain, device)


def _network(place: str) -> tuple[Any, Any, set[str]]:
    """The network, its settings, and the parameters that its files lack."""
    transformers = _transformers()
    config = transformers.AutoConfig.from_pretrained(place, trust_remote_code=False)
    config = getattr(config, "vision_config", config)  # of CLIP and SigLIP the vision tower alone
    network, info = transformers.AutoModel.from_pretrained(
        place,
        config=config,
        use_safetensors=True,
        trust_remote_code=False,
        dtype="float32",
        output_loading_info=True,
    )
    return network, config, set(info["missing_keys"])


def _vision(label: str, place: str, network: Any, config: Mapping[str, Any], device: str) -> FrozenNetwork:
    file = _settings(place, "preprocessor_config.json") or _settings(place, "processor_config.json")
    if file is None:
        raise ConfigError(
            f"embedding model {label!r} has no preprocessor_config.json; add the file that the model was published with"
        )
    steps = Preprocessing.of(file, f"{label}: preprocessor_config.json")
    pooling = _vision_pooling(network, config)

    def prepare(rows: Sequence[Shown]) -> Batch:
        return {"pixel_values": steps.batch([row for row in rows if isinstance(row, Image)])}

    def features(batch: Batch) -> Tensor:
        found = network(**batch)
        if pooling == "pooler":
            pooled: Tensor = found.pooler_output
            return pooled
        return _pooled_tokens(found.last_hidden_state, pooling)

    recipe = {"config": config, "preprocessing": str(steps), "pooling": pooling}
    pixels = steps.pixels("pixel_values")
    return frozen_network(
        label, "images", network, prepare, features, recipe=recipe, device=device, pixels=pixels
    )


def _vision_pooling(network: Any, config: Mapping[str, Any]) -> str:
    """CLIP's and SigLIP's towers pool by trained layers; others have a CLS token, or none."""
    if str(config.get("model_type")).endswith("vision_model"):
        return "pooler"
    return "cls" if any(name.endswith("cls_token") for name in network.state_dict()) else "mean"


def _pooled_tokens(values: Tensor, pooling: str) -> Tensor:
    """Features from tokens (B, T, D), or from a map (B, D, H, W), whose mean is taken."""
    if values.dim() == 4:
        return values.mean(dim=(2, 3))
    return values[:, 0] if pooling == "cls" else values.mean(dim=1)


def _text(label: str, place: str, network: Any, config: Mapping[str, Any], device: str) -> FrozenNetwork:
    with quietly(), _explaining(label, place):
        tokenizer = _transformers().AutoTokenizer.from_pretrained(place, trust_remote_code=False)
    tokenizer.padding_side = "right"
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token or tokenizer.unk_token
    sentence = _settings(place, "sentence_bert_config.json") or {}
    longest = _longest(sentence, tokenizer, config)
    pooling, normalize = _sentence_pooling(label, place)

    def prepare(rows: Sequence[Shown]) -> Batch:
        texts = [as_text(row) or "" for row in rows]
        if sentence.get("do_lower_case"):
            texts = [text.lower() for text in texts]
        found: Batch = tokenizer(
            texts, padding=True, truncation=True, max_length=longest, return_tensors="pt"
        )
        return dict(found)

    def features(batch: Batch) -> Tensor:
        values: Tensor = network(**batch).last_hidden_state
        mask = batch["attention_mask"].unsqueeze(2).to(values.dtype)
        pooled = values[:, 0] if pooling == "cls" else (values * mask).sum(1) / mask.sum(1).clamp_min(1)
        return pooled / pooled.norm(dim=1, keepdim=True).clamp_min(1e-12) if normalize else pooled

    recipe = {
        "config": config,
        "tokenizer": tokenizer_text(tokenizer),
        "lower": bool(sentence.get("do_lower_case")),
        "longest": longest,
        "pooling": pooling,
        "normalize": normalize,
    }
    return frozen_network(label, "texts", network, prepare, features, recipe=recipe, device=device)


def tokenizer_text(tokenizer: Any) -> str:
    """All that determines how texts become tokens; of a slow tokenizer the words, of something else nothing."""
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if hasattr(backend, "to_str"):
        return str(backend.to_str())
    return str(tokenizer.get_vocab()) if hasattr(tokenizer, "get_vocab") else ""


def _longest(sentence: Mapping[str, Any], tokenizer: Any, config: Mapping[str, Any]) -> int:
    """The most tokens of a text; the rest is cut off."""
    if sentence.get("max_seq_length"):
        return int(sentence["max_seq_length"])
    positions = config.get("max_position_embeddings") or 512
    offset = 2 if "roberta" in str(config.get("model_type")) else 0  # its positions are numbered from 2
    return min(int(tokenizer.model_max_length), int(positions) - offset)


def _sentence_pooling(label: str, place: str) -> tuple[str, bool]:
    """The pooling that a model's own files name, mean without any; and whether features have length 1."""
    modules: Any = _settings(place, "modules.json") or []
    kinds = {str(module["type"]).rpartition(".")[2]: str(module.get("path", "")) for module in modules}
    other = [kind for kind in kinds if kind not in KNOWN_MODULES]
    config = _settings(place, f"{kinds.get('Pooling', '1_Pooling')}/config.json") or {}
    modes = [
        mode.removeprefix("pooling_mode_").removesuffix("_token").removesuffix("_tokens")
        for mode, on in config.items()
        if mode.startswith("pooling_mode_") and on
    ]
    pooling = config.get("pooling_mode") or "+".join(modes) or "mean"
    if other or pooling not in POOLINGS:
        raise ConfigError(
            f"embedding model {label!r}: {', '.join(other) or f'pooling {pooling!r}'} is known to the package "
            f"sentence-transformers alone; use sentence-transformers:{place}"
        )
    return pooling, "Normalize" in kinds


def _drop_unused_pooler(network: Any) -> None:
    """Remove a pooling layer after the last one: published weights often lack it, and its features are not used."""
    pooler = getattr(network, "pooler", None)
    if pooler is not None and any(True for _ in pooler.parameters()):
        network.pooler = None


def _settings(place: str, file: str) -> dict[str, Any] | None:
    """A JSON file of the model; None if it has none of that name."""
    utils: Any = need("transformers.utils", extra="transformers", purpose="read a model's files")
    with contextlib.suppress(OSError):
        found = utils.cached_file(
            place,
            file,
            _raise_exceptions_for_missing_entries=False,
            _raise_exceptions_for_connection_errors=False,
        )
        if found is not None:
            content: dict[str, Any] = read_json(Path(found), error=ConfigError)
            return content
    return None


def _checked_place(name: str, label: str) -> str:
    """The folder or the name; a folder must have settings and safetensors."""
    folder = Path(name).expanduser()
    if not folder.is_dir():
        if name.count("/") > 1 or name.startswith((".", "/", "~")):
            raise ConfigError(f"embedding model {label!r}: no such folder; check the path")
        return name
    if not (folder / "config.json").is_file():
        raise ConfigError(
            f"embedding model {label!r}: the folder has no config.json; give one that save_pretrained wrote"
        )
    if not any(folder.glob("*.safetensors")):
        raise ConfigError(
            f"embedding model {label!r}: the folder has no .safetensors file, and other formats can run code; convert "
            "it where you trust it: AutoModel.from_pretrained(folder).save_pretrained(new_folder)"
        )
    return str(folder)


@contextlib.contextmanager
def _explaining(label: str, place: str) -> Iterator[None]:
    """Turn what transformers raises into one line with the remedy."""
    try:
        yield
    except (OSError, ValueError, KeyError, RuntimeError, ImportError, TypeError) as error:
        reason = " ".join(str(error).split())[:300]
        remedy = (
            "check the files of the folder"
            if Path(place).is_dir()
            else "check the name and the connection, or give a folder that has the model: transformers:FOLDER"
        )
        raise ConfigError(f"embedding model {label!r} cannot be loaded ({reason}); {remedy}") from error


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """No bars and reports while a model is loaded; downloads are shown."""
    logging: Any = need("transformers.utils.logging", extra="transformers", purpose="load a pretrained model")
    before, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(before)
        if bars:
            logging.enable_progress_bar()


def _transformers() -> Any:
    return need("transformers", extra="transformers", purpose="embed with transformers:MODEL")
