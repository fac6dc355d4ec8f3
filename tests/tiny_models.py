"""Models of a few kilobytes with random weights: real files, which llama.cpp loads and runs."""

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from safetensors.numpy import save_file

_EMBEDDING, _HEADS, _HIDDEN, _CONTEXT = 32, 2, 64, 256
_TEMPLATE = "{% for m in messages %}{{ m['content'] }}{% endfor %}"


def _vocabulary() -> list[str]:
    """Every byte as GPT-2 writes it, one merged token, and the end of a text."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    letters = {byte: chr(byte) for byte in shown}
    hidden = [byte for byte in range(256) if byte not in letters]
    letters |= {byte: chr(256 + place) for place, byte in enumerate(hidden)}
    return [*(letters[byte] for byte in range(256)), "th", "<|end|>"]


def write_gguf(path: Path, *, seed: int = 0, split_max_tensors: int = 0, **fields: str) -> list[Path]:
    """Write a model to `path`, or its parts beside it; `fields` are further metadata of `general`."""
    writer = gguf.GGUFWriter(path, "llama", split_max_tensors=split_max_tensors)
    words = _vocabulary()
    writer.add_context_length(_CONTEXT)
    writer.add_embedding_length(_EMBEDDING)
    writer.add_block_count(1)
    writer.add_feed_forward_length(_HIDDEN)
    writer.add_head_count(_HEADS)
    writer.add_head_count_kv(_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(_EMBEDDING // _HEADS)
    writer.add_vocab_size(len(words))
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(words)
    writer.add_token_types([gguf.TokenType.NORMAL] * (len(words) - 1) + [gguf.TokenType.CONTROL])
    writer.add_token_merges(["t h"])
    writer.add_eos_token_id(len(words) - 1)
    writer.add_chat_template(_TEMPLATE)
    for name, value in fields.items():
        writer.add_string(f"general.{name}", value)
    random = np.random.default_rng(seed)
    shapes = {
        "token_embd": (len(words), _EMBEDDING),
        "output": (len(words), _EMBEDDING),
        "output_norm": (_EMBEDDING,),
        "blk.0.attn_norm": (_EMBEDDING,),
        "blk.0.ffn_norm": (_EMBEDDING,),
        **{f"blk.0.attn_{part}": (_EMBEDDING, _EMBEDDING) for part in ("q", "k", "v", "output")},
        "blk.0.ffn_gate": (_HIDDEN, _EMBEDDING),
        "blk.0.ffn_up": (_HIDDEN, _EMBEDDING),
        "blk.0.ffn_down": (_EMBEDDING, _HIDDEN),
    }
    for name, shape in shapes.items():
        writer.add_tensor(f"{name}.weight", random.normal(0, 0.1, shape).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return [path] if path.exists() else sorted(path.parent.glob(f"{path.stem}-*-of-*.gguf"))


def write_folder(folder: Path, **config: Any) -> Path:
    """Write a folder of safetensors with configuration, tokenizer and model card."""
    folder.mkdir()
    tensors = {
        "model.embed_tokens.weight": np.ones((16, 8), np.float16),
        "lm_head.weight": np.ones((16, 8), np.float16),
    }
    save_file(tensors, folder / "model.safetensors")
    whole = {"architectures": ["LlamaForCausalLM"], "max_position_embeddings": 512, **config}
    (folder / "config.json").write_text(json.dumps(whole))
    (folder / "tokenizer.json").write_text("{}")
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": _TEMPLATE}))
    (folder / "README.md").write_text("---\nlicense: mit\nbase_model: someone/tiny\n---\n# A model\n")
    return folder
