"""Writes the reference logits in this folder: forward passes of tiny models in plain numpy and float64, from the published
definitions (Hugging Face's configuration names, the papers' formulas). Weights follow from their names, so that only logits are kept.

    python3 reference.py

Sources: arcee: the configuration and model card of AFM-4.5B. nemotron: Parmar et al. 2024, Nemotron-4 15B (LayerNorm1p, squared
ReLU, half of a head rotated). phi3: Abdin et al. 2024; long RoPE: Ding et al. 2024.
"""
import json
import math

import numpy as np

TOKENS = [(7 * i * i + 3 * i + 1) % 48 for i in range(24)]


def weight(name, shape, scale, offset):
    """Numbers of 24 bits in [-scale, scale) around offset, from FNV-1a of the name and splitmix64 of the index."""
    h = 0xCBF29CE484222325
    for b in name.encode():
        h = (h ^ b) * 0x100000001B3 % 2**64
    n = int(np.prod(shape))
    with np.errstate(over="ignore"):
        z = np.uint64(h) + np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    unit = (z >> np.uint64(40)).astype(np.float64) / 2**23 - 1
    return (offset + scale * unit).astype(np.float32).astype(np.float64).reshape(shape)


class Model:
    """A configuration and the weights that were asked of it, as the checkpoint holds them."""

    def __init__(self, config):
        self.c = {"vocab_size": 48, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4,
                  "num_key_value_heads": 2, "max_position_embeddings": 128, "tie_word_embeddings": False, **config}
        self.head_dim = self.c.get("head_dim", self.c["hidden_size"] // self.c["num_attention_heads"])
        self.tensors = {}

    def get(self, name, *shape, scale=0.25, offset=0.0):
        self.tensors[name] = {"shape": list(shape), "scale": scale, "offset": offset}
        return weight(name, shape, scale, offset)


def rms_norm(x, w, eps):
    return x / np.sqrt(np.mean(x * x, -1, keepdims=True) + eps) * w


def layer_norm(x, w, b, eps):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps) * w + b


def rotate(x, freqs, magnitude=1.0):
    """x [positions, heads, head_dim]; the pair of element i is i + len(freqs)."""
    n = len(freqs)
    angle = np.arange(len(x))[:, None, None] * freqs
    cos, sin = np.cos(angle) * magnitude, np.sin(angle) * magnitude
    a, b = x[..., :n], x[..., n:2 * n]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin, x[..., 2 * n:]], -1)


def attention(q, k, v, window=None):
    """Causal, q [n, heads, head_dim], k and v [n, kv_heads, head_dim]; a token sees the last window positions, its own included."""
    n, heads, dim = q.shape
    i, j = np.arange(n)[:, None], np.arange(n)[None, :]
    seen = j <= i
    if window:
        seen &= j > i - window
    out = np.zeros_like(q)
    for h in range(heads):
        kv = h * k.shape[1] // heads
        s = np.where(seen, q[:, h] @ k[:, kv].T / math.sqrt(dim), -np.inf)
        s = np.exp(s - s.max(-1, keepdims=True))
        out[:, h] = s / s.sum(-1, keepdims=True) @ v[:, kv]
    return out.reshape(n, heads * dim)


def relu2(x):
    return np.maximum(x, 0) ** 2


def silu(x):
    return x / (1 + np.exp(-x))


def run(m, norm, freqs, mlp, fused=False, magnitude=1.0, window=None):
    c, dim = m.c, m.head_dim
    hidden, heads, kv = c["hidden_size"], c["num_attention_heads"], c["num_key_value_heads"]
    x = m.get("model.embed_tokens.weight", c["vocab_size"], hidden, scale=1.0)[TOKENS]
    for layer in range(c["num_hidden_layers"]):
        p = f"model.layers.{layer}."
        h = norm(m, x, p + "input_layernorm")
        if fused:
            qkv = h @ m.get(p + "self_attn.qkv_proj.weight", (heads + 2 * kv) * dim, hidden).T
            q, k, v = np.split(qkv, [heads * dim, (heads + kv) * dim], -1)
        else:
            q = h @ m.get(p + "self_attn.q_proj.weight", heads * dim, hidden).T
            k = h @ m.get(p + "self_attn.k_proj.weight", kv * dim, hidden).T
            v = h @ m.get(p + "self_attn.v_proj.weight", kv * dim, hidden).T
        q, k, v = (t.reshape(len(x), -1, dim) for t in (q, k, v))
        a = attention(rotate(q, freqs, magnitude), rotate(k, freqs, magnitude), v, window)
        x = x + a @ m.get(p + "self_attn.o_proj.weight", hidden, heads * dim).T
        x = x + mlp(m, norm(m, x, p + "post_attention_layernorm"), p + "mlp.")
    x = norm(m, x, "model.norm")
    return x @ m.get("lm_head.weight", c["vocab_size"], hidden).T


def squared(m, h, p):
    hidden, ff = m.c["hidden_size"], m.c["intermediate_size"]
    return relu2(h @ m.get(p + "up_proj.weight", ff, hidden).T) @ m.get(p + "down_proj.weight", hidden, ff, scale=0.125).T


def gated(m, h, p):
    hidden, ff = m.c["hidden_size"], m.c["intermediate_size"]
    gate, up = np.split(h @ m.get(p + "gate_up_proj.weight", 2 * ff, hidden).T, 2, -1)
    return silu(gate) * up @ m.get(p + "down_proj.weight", hidden, ff).T


def frequencies(m, dims):
    return m.c.get("rope_theta", 10000.0) ** (-np.arange(0, dims, 2) / dims)


def rms(m, x, name):
    return rms_norm(x, m.get(name + ".weight", m.c["hidden_size"], scale=0.25, offset=1.0), m.c["rms_norm_eps"])


def layer_norm1p(m, x, name):
    w = m.get(name + ".weight", m.c["hidden_size"], scale=0.25) + 1
    return layer_norm(x, w, m.get(name + ".bias", m.c["hidden_size"]), m.c["norm_eps"])


def arcee():
    m = Model({"architectures": ["ArceeForCausalLM"], "hidden_act": "relu2", "rms_norm_eps": 1e-5, "head_dim": 24})
    yield "arcee", m, 128, run(m, rms, frequencies(m, m.head_dim), squared)


def nemotron():
    m = Model({"architectures": ["NemotronForCausalLM"], "hidden_act": "relu2", "norm_eps": 1e-5, "partial_rotary_factor": 0.5})
    yield "nemotron", m, 128, run(m, layer_norm1p, frequencies(m, m.head_dim // 2), squared)


def phi3():
    """A context of at most original_max_position_embeddings takes the short factors, a longer one the long ones."""
    base = {"architectures": ["Phi3ForCausalLM"], "hidden_act": "silu", "rms_norm_eps": 1e-5, "sliding_window": 9}
    m = Model(base)
    yield "phi3", m, 128, run(m, rms, frequencies(m, 16), gated, fused=True, window=9)
    for name, context, part in [("phi3-short", 64, 1.0), ("phi3-long", 65, 1.0), ("phi3-partial", 128, 0.75)]:
        dims = int(16 * part)
        factors = {"short_factor": [1 + 0.125 * i for i in range(dims // 2)], "long_factor": [1 + 0.75 * i for i in range(dims // 2)]}
        m = Model({**base, "original_max_position_embeddings": 64, "partial_rotary_factor": part,
                   "rope_scaling": {"type": "longrope", **factors}})
        chosen = factors["long_factor" if context > 64 else "short_factor"]
        magnitude = math.sqrt(1 + math.log(128 / 64) / math.log(64))
        yield name, m, context, run(m, rms, frequencies(m, dims) / np.array(chosen), gated, fused=True, magnitude=magnitude, window=9)


for family in (arcee, nemotron, phi3):
    for name, m, context, logits in family():
        with open(name + ".json", "w") as f:
            json.dump({"how": f"reference.py, numpy {np.__version__}, float64", "config": m.c, "tensors": m.tensors, "context": context,
                       "tokens": TOKENS, "logits": [[float(f"{v:.7g}") for v in row] for row in logits]}, f)
            f.write("\n")
