"""A model of no use and of the right shape: a random Llama in fp16, with a tokenizer of its own. For GPU machines."""

import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np

_WIDTH, _INNER, _LAYERS, _HEADS, _KV_HEADS, _HEAD_WIDTH = 256, 512, 2, 4, 2, 64
_VOCABULARY = 1024
_ROWS_WITHOUT_A_TOKEN = 40
_CONTEXT = 4096
_BEGIN, _END = "<s>", "</s>"


def build(folder: Path) -> Path:
    """Make the model in `folder`, the same every time, and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    size = _train_tokenizer(folder)
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "torch_dtype": "float16",
        "hidden_size": _WIDTH,
        "intermediate_size": _INNER,
        "num_hidden_layers": _LAYERS,
        "num_attention_heads": _HEADS,
        "num_key_value_heads": _KV_HEADS,
        "head_dim": _HEAD_WIDTH,
        "vocab_size": size,
        "max_position_embeddings": _CONTEXT,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        "bos_token_id": 0,
        "eos_token_id": 1,
    }
    (folder / "config.json").write_text(json.dumps(config))
    save: Any = importlib.import_module("safetensors.numpy").save_file
    save(_weights(size), str(folder / "model.safetensors"), metadata={"format": "pt"})
    return folder


def _weights(vocabulary: int) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(1)

    def matrix(rows: int, columns: int) -> np.ndarray:
        # Wide enough for logits that differ: greedy must not depend on the last bit.
        drawn: np.ndarray = (draw.standard_normal((rows, columns)) * 2 / columns**0.5).astype(np.float16)
        return drawn

    ones = np.ones(_WIDTH, np.float16)
    weights = {
        "model.embed_tokens.weight": matrix(vocabulary, _WIDTH),
        "model.norm.weight": ones,
        "lm_head.weight": matrix(vocabulary, _WIDTH),
    }
    for layer in range(_LAYERS):
        shapes = {
            "self_attn.q_proj": (_HEADS * _HEAD_WIDTH, _WIDTH),
            "self_attn.k_proj": (_KV_HEADS * _HEAD_WIDTH, _WIDTH),
            "self_attn.v_proj": (_KV_HEADS * _HEAD_WIDTH, _WIDTH),
            "self_attn.o_proj": (_WIDTH, _HEADS * _HEAD_WIDTH),
            "mlp.gate_proj": (_INNER, _WIDTH),
            "mlp.up_proj": (_INNER, _WIDTH),
            "mlp.down_proj": (_WIDTH, _INNER),
        }
        prefix = f"model.layers.{layer}"
        weights |= {f"{prefix}.{name}.weight": matrix(*shape) for name, shape in shapes.items()}
        weights |= {f"{prefix}.{name}.weight": ones for name in ("input_layernorm", "post_attention_layernorm")}
    return weights


def _train_tokenizer(folder: Path) -> int:
    """Train a byte-level vocabulary on this project's documentation; return how many rows a model of it has."""
    library: Any = importlib.import_module("tokenizers")
    tokenizer = library.Tokenizer(library.models.BPE())
    tokenizer.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = library.decoders.ByteLevel()
    trainer = library.trainers.BpeTrainer(
        vocab_size=_VOCABULARY,
        special_tokens=[_BEGIN, _END],
        initial_alphabet=library.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    documents = sorted((Path(__file__).parents[2] / "docs").glob("*.md"))
    tokenizer.train([str(path) for path in documents], trainer)
    tokenizer.post_processor = library.processors.TemplateProcessing(
        single=f"{_BEGIN} $A", special_tokens=[(_BEGIN, tokenizer.token_to_id(_BEGIN))]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"bos_token": _BEGIN, "eos_token": _END}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    # More rows than tokens, as many models have, and no multiple of 32, to which the library fills them up.
    return int(tokenizer.get_vocab_size()) + _ROWS_WITHOUT_A_TOKEN
