"""Writes the reference logits in this folder: forward passes of tiny models in plain numpy and float64, from the published
definitions (Hugging Face's configuration names, the papers' formulas). Weights follow from their names, so that only logits are kept.

    python3 reference.py

Sources: arcee: the configuration and model card of AFM-4.5B. nemotron: Parmar et al. 2024, Nemotron-4 15B (LayerNorm1p, squared
ReLU, half of a head rotated). phi3: Abdin et al. 2024; long RoPE: Ding et al. 2024. granite: IBM's model cards and configuration (factors
after Yang et al. 2022, muP). olmo2: OLMo team 2024. smollm3: its model card; layers without RoPE: Yang et al. 2025. stablelm: Bellagente
et al. 2024. gemma, gemma2, gemma3: the Gemma team's reports of 2024, 2024 and 2025. olmo3: its report, 2025; YaRN: Peng et al. 2023.
command-r, cohere2: Cohere's model cards and configurations, and the report on Command A, 2025. starcoder2: Lozhkov et al. 2024. mistral3: the
configuration of Ministral 3. qwen2vl, qwen3vl: Bai et al. 2025 (M-RoPE), the configurations of Qwen2.5-VL and Qwen3-VL. gpt2: Radford et al. 2019. gptneox: Black et al. 2022,
Biderman et al. 2023. internlm2: Cai et al. 2024. phi2: Gunasekar et al. 2023, Li et al. 2023. chatglm: GLM team 2024. jais2: its model card.
ALiBi: Press et al. 2022. mpt: MosaicML 2023. bloom: BigScience 2022. baichuan: Yang et al. 2023. plm: Deng et al. 2025; DeepSeek-AI 2024. minicpm3: Hu et al. 2024 and
its configuration. gptoss: OpenAI 2025 (model card and reference implementation); MXFP4: OCP Microscaling Formats 1.0. deepseek2: DeepSeek-AI 2024 (DeepSeek-V2, DeepSeek-V3).
glm4moe: GLM-4.5 team 2025 and its configurations. smallthinker: Song et al. 2025 and its configuration. dbrx: Databricks 2024 (its
model card and configuration). deepseek: Dai et al. 2024. glm4moe-lite, kimi-k2: their configurations and model cards. turbosparse-mixtral: Song et al. 2024 and its model card. nemotron_h: NVIDIA 2025 (Nemotron-H) and its configurations;
Mamba-2: Dao and Gu 2024, and its authors' code (norms of groups). falcon-h1: its report and configurations, 2025. qwen3next, qwen35: Yang, Kautz and Hatamizadeh 2024 (Gated Delta Networks), the configurations of Qwen3-Next and Qwen3.5.
llama4: its model card and configuration. minicpm: Hu et al. 2024, the configurations of MiniCPM 2 and 4. ernie4_5: Baidu 2025 and its configuration. hunyuan-dense: its model
card and configuration (alpha: the power of dim/(dim − 2) of NTK-aware scaling). exaone: LG AI Research 2024 and its configuration. qwen3vlmoe: as qwen3vl.
heads: Li et al. 2025 (EAGLE-3) and its authors' code; Chen et al. 2026 (DFlash) and its authors' code.
lfm2: Liquid AI 2025 (the report on LFM2 and its configurations).
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
        self.folder = self.c  # what config.json says
        self.head_dim = self.c.get("head_dim", self.c["hidden_size"] // self.c["num_attention_heads"])
        self.tensors = {}  # by name; those of another folder behind its name and a slash
        self.files = {}  # further files of the folder that hold JSON
        self.predicted = False  # neurons that predictors take for zero are zero
        self.types = None  # of BERT's tokens, where not all have the first
        self.result = None  # what comes of a text behind pooling

    def bytes(self, name, *shape, scale, offset):
        """Whole numbers of 8 bits."""
        self.tensors[name] = {"shape": list(shape), "scale": scale, "offset": offset, "dtype": "U8"}
        return np.floor(weight(name, shape, scale, offset)).astype(int)

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


def attention(q, k, v, window=None, scale=None, cap=None, slopes=None, later=False, sinks=None):
    """Causal, unless tokens see later positions, too, with half of a window before and half behind them. q [n, heads, head_dim], k and v [n, kv_heads, head_dim]; a token sees the last window positions, its own included, or, where it is negative, those of its part of as many positions. Scores fall by a
    head's slope for each position between. sinks [heads] are scores that take their share and have no value."""
    n, heads, dim = q.shape
    scale = 1 / math.sqrt(dim) if scale is None else scale
    i, j = np.arange(n)[:, None], np.arange(n)[None, :]
    seen = j <= i
    if window and window < 0:
        seen &= i // -window == j // -window
    elif later:
        seen = np.abs(i - j) <= (window // 2 if window else n)
    elif window:
        seen &= j > i - window
    out = np.zeros((n, heads, v.shape[-1]))
    for h in range(heads):
        kv = h * k.shape[1] // heads
        s = q[:, h] @ k[:, kv].T * scale
        s = cap * np.tanh(s / cap) if cap else s
        s = np.where(seen, s - np.abs(i - j) * slopes[h] if slopes else s, -np.inf)
        top = s.max(-1, keepdims=True) if sinks is None else np.maximum(s.max(-1, keepdims=True), sinks[h])
        s = np.exp(s - top)
        out[:, h] = s / (s.sum(-1, keepdims=True) + (0 if sinks is None else np.exp(sinks[h] - top))) @ v[:, kv]
    return out.reshape(n, -1)


def relu2(x):
    return np.maximum(x, 0) ** 2


def silu(x):
    return x / (1 + np.exp(-x))


def run(m, norm, freqs, mlp, fused=False, magnitude=1.0, window=None, **more):
    """The usual decoder: x += attention(norm(x)); x += mlp(norm(x)). freqs, window and magnitude may be functions of the layer; freqs of None
    is no rotation. more: see Block's defaults."""
    c, dim, b = m.c, m.head_dim, Block(**more)
    of = lambda v, layer: v(layer) if callable(v) else v
    hidden, heads, kv = c["hidden_size"], c["num_attention_heads"], c["num_key_value_heads"]
    embedding = m.get(b.root + "embed_tokens.weight", c["vocab_size"], hidden, scale=b.table)
    x = embedding[TOKENS] * b.embedding
    for layer in range(c["num_hidden_layers"]):
        p = f"{b.root}layers.{layer}."
        h = norm(m, x, p + b.before[0]) if b.before else x
        if fused:
            qkv = h @ m.get(p + "self_attn.qkv_proj.weight", (heads + 2 * kv) * dim, hidden).T
            q, k, v = np.split(qkv, [heads * dim, (heads + kv) * dim], -1)
        else:
            q, k, v = (h @ m.get(f"{p}self_attn.{n}_proj.weight", w * dim, hidden, scale=s).T
                       for n, w, s in (("q", heads, b.queries), ("k", kv, 0.25), ("v", kv, 0.25)))
            if b.biased:
                q, k, v = (t + m.get(f"{p}self_attn.{n}_proj.bias", t.shape[-1]) for n, t in (("q", q), ("k", k), ("v", v)))
        q, k = b.wide(m, q, k, p) if b.wide else (q, k)
        q, k, v = (t.reshape(len(x), -1, dim) for t in (q, k, v))
        q, k = b.heads(m, q, k, p) if b.heads else (q, k)
        f = of(freqs, layer)
        if f is not None:
            q, k = (b.turn(t, f, of(magnitude, layer)) for t in (q, k))
        q, k = b.turned(m, q, k, p) if b.turned else (q, k)
        if b.temperature is not None:
            q = q * b.temperature[:, None, None]
        y = attention(q, k, v, of(window, layer), b.scale, b.cap, later=b.states is True, sinks=b.sinks and b.sinks(m, p)) @ m.get(p + "self_attn.o_proj.weight", hidden, heads * dim).T
        if b.biased == "all":
            y = y + m.get(p + "self_attn.o_proj.bias", hidden)
        if b.parallel:
            x = x + y + mlp(m, h, p + "mlp.")
            continue
        x = x + (norm(m, y, p + b.after[0]) if b.after else y) * b.residual
        y = mlp(m, norm(m, x, p + b.before[1]) if b.before else x, p + "mlp.")
        x = x + (norm(m, y, p + b.after[1]) if b.after else y) * b.residual
    x = norm(m, x, b.root + "norm")
    if b.states:
        return x
    head = embedding if c["tie_word_embeddings"] else m.get(b.head, c["vocab_size"], hidden)
    logits = x @ head.T / b.logits
    return b.logit_cap * np.tanh(logits / b.logit_cap) if b.logit_cap else logits


class Block:
    """What decoders differ in: names of the norms before and after attention and mlp, norms of q and k over the whole width or of each
    head, before or behind (turned) the rotation, factors of embeddings, scores, what is added to the residual, and queries by position, the divisor of logits, soft caps, biases of
    q, k and v or of all, attention beside the mlp, sinks of heads, names in folders with other models, states in place of logits, of tokens that see later ones (True) or not ("causal"). And the sizes of weights: of the embedding's table, and of queries, small enough that scores do not magnify the rounding of a cache of halves."""

    def __init__(self, before=("input_layernorm", "post_attention_layernorm"), after=None, wide=None, heads=None, turned=None, embedding=1.0, scale=None,
                 residual=1.0, logits=1.0, cap=None, logit_cap=None, biased=False, table=1.0, queries=0.25, turn=rotate, temperature=None,
                 parallel=False, sinks=None, root="model.", head="lm_head.weight", states=False):
        self.__dict__.update(locals())


def squared(m, h, p):
    hidden, ff = m.c["hidden_size"], m.c["intermediate_size"]
    return relu2(h @ m.get(p + "up_proj.weight", ff, hidden).T) @ m.get(p + "down_proj.weight", hidden, ff, scale=0.125).T


def swiglu(m, h, p):
    hidden, ff = m.c["hidden_size"], m.c["intermediate_size"]
    gate, up = (h @ m.get(f"{p}{n}_proj.weight", ff, hidden).T for n in ("gate", "up"))
    return silu(gate) * up @ m.get(p + "down_proj.weight", hidden, ff).T


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


def granite():
    """Factors that are absent are 1, that of the scores too."""
    m = Model({"architectures": ["GraniteForCausalLM"], "hidden_act": "silu", "rms_norm_eps": 1e-5, "embedding_multiplier": 6.0,
               "attention_multiplier": 0.125, "residual_multiplier": 0.35, "logits_scaling": 4.0, "tie_word_embeddings": True})
    yield "granite", m, 128, run(m, rms, frequencies(m, 16), swiglu, embedding=6.0, scale=0.125, residual=0.35, logits=4.0)
    m = Model({"architectures": ["GraniteForCausalLM"], "rms_norm_eps": 1e-5, "attention_bias": True})
    yield "granite-plain", m, 128, run(m, rms, frequencies(m, 16), swiglu, scale=1.0, biased=True, queries=0.03)


def wide_norms(m, q, k, p):
    return tuple(rms_norm(t, m.get(f"{p}self_attn.{n}_norm.weight", t.shape[-1], offset=0.5), m.c["rms_norm_eps"]) for n, t in (("q", q), ("k", k)))


AFTER = ("post_attention_layernorm", "post_feedforward_layernorm")


def olmo2():
    m = Model({"architectures": ["Olmo2ForCausalLM"], "hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 500000.0})
    yield "olmo2", m, 128, run(m, rms, frequencies(m, 16), swiglu, before=None, after=AFTER, wide=wide_norms)


def yarn(freqs, dims, base, factor, original, fast=32.0, slow=1.0, whole=True):
    """Pairs that turn more than fast times within the original context keep their frequency, those that turn less than slow times are slowed
    by factor, those between are blended; the ends of the range are whole numbers unless the configuration says otherwise."""
    pair = lambda turns: dims * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(base))
    low, high = (math.floor(pair(fast)), math.ceil(pair(slow))) if whole else (pair(fast), pair(slow))
    low, high = max(low, 0), min(high, dims - 1)
    ramp = np.clip((np.arange(len(freqs)) - low) / max(high - low, 0.001), 0, 1)
    return freqs / factor * ramp + freqs * (1 - ramp)


def olmo3():
    """Three of four layers have a window; YaRN is of the others."""
    m = Model({"architectures": ["Olmo3ForCausalLM"], "hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 500000.0, "num_hidden_layers": 5,
               "sliding_window": 6, "layer_types": [("full" if i == 3 else "sliding") + "_attention" for i in range(5)],
               "rope_scaling": {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 16, "beta_fast": 2.0, "beta_slow": 1.0,
                                "attention_factor": 1.2079441541679836}})
    plain, full = frequencies(m, 16), lambda layer: layer == 3
    slowed = yarn(plain, 16, 500000.0, 8.0, 16, fast=2.0)
    yield "olmo3", m, 128, run(m, rms, lambda layer: slowed if full(layer) else plain, swiglu, before=None, after=AFTER, wide=wide_norms,
                               window=lambda layer: None if full(layer) else 6, magnitude=lambda layer: 1.2079441541679836 if full(layer) else 1.0)


def smollm3():
    m = Model({"architectures": ["SmolLM3ForCausalLM"], "hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 2000000.0,
               "num_hidden_layers": 5, "no_rope_layers": [1, 1, 1, 0, 1], "no_rope_layer_interval": 4, "use_sliding_window": False,
               "tie_word_embeddings": True})
    every = frequencies(m, 16)
    yield "smollm3", m, 128, run(m, rms, lambda layer: every if m.c["no_rope_layers"][layer] else None, swiglu, queries=0.1)


def plain_layer_norm(m, x, name):
    w = m.get(name + ".weight", m.c["hidden_size"], offset=1.0)
    return layer_norm(x, w, m.get(name + ".bias", m.c["hidden_size"]), m.c["layer_norm_eps"])


def stablelm():
    base = {"architectures": ["StableLmForCausalLM"], "hidden_act": "silu", "layer_norm_eps": 1e-5, "hidden_size": 128}
    for name, config, dims, biased in [("stablelm", {}, 8, False), ("stablelm-2", {"use_qkv_bias": True, "partial_rotary_factor": 0.5}, 16, True)]:
        m = Model({**base, **config})
        yield name, m, 128, run(m, plain_layer_norm, frequencies(m, dims), swiglu, biased=biased, queries=0.1)
    m = Model({**base, "use_parallel_residual": True, "qk_layernorm": True, "partial_rotary_factor": 0.5})
    yield "stablelm-2-12b", m, 128, run(m, plain_layer_norm, frequencies(m, 16), swiglu, before=("input_layernorm",), parallel=True,
                                        heads=layer_norm_per_head, queries=0.1)


def layer_norm_per_head(m, q, k, p):
    """Each head is normed with weights of its own."""
    return tuple(np.stack([layer_norm(t[:, h], m.get(f"{p}self_attn.{n}_layernorm.norms.{h}.weight", m.head_dim, offset=1.0), 0, m.c["layer_norm_eps"])
                           for h in range(t.shape[1])], 1) for n, t in (("q", q), ("k", k)))


def gelu(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def geglu(m, h, p):
    hidden, ff = m.c["hidden_size"], m.c["intermediate_size"]
    gate, up = (h @ m.get(f"{p}{n}_proj.weight", ff, hidden).T for n in ("gate", "up"))
    return gelu(gate) * up @ m.get(p + "down_proj.weight", hidden, ff).T


def rms1p(m, x, name):
    return rms_norm(x, m.get(name + ".weight", m.c["hidden_size"]) + 1, m.c["rms_norm_eps"])


def head_norms1p(m, q, k, p):
    return tuple(rms_norm(t, m.get(f"{p}self_attn.{n}_norm.weight", m.head_dim, offset=-0.5) + 1, m.c["rms_norm_eps"]) for n, t in (("q", q), ("k", k)))


GEMMA = {"hidden_activation": "gelu_pytorch_tanh", "rms_norm_eps": 1e-6, "head_dim": 24, "tie_word_embeddings": True}
FOUR = {"before": ("input_layernorm", "pre_feedforward_layernorm"), "after": AFTER}


def gemma():
    m = Model({**GEMMA, "architectures": ["GemmaForCausalLM"], "hidden_act": "gelu"})
    yield "gemma", m, 128, run(m, rms1p, frequencies(m, 24), geglu, embedding=8.0, queries=0.1)


def gemma2():
    """Layers 0, 2, … have the window."""
    m = Model({**GEMMA, "architectures": ["Gemma2ForCausalLM"], "sliding_window": 7, "query_pre_attn_scalar": 16, "attn_logit_softcapping": 1.5,
               "final_logit_softcapping": 8.0})
    yield "gemma2", m, 128, run(m, rms1p, frequencies(m, 24), geglu, window=lambda layer: None if layer % 2 else 7, embedding=8.0, scale=0.25,
                                cap=1.5, logit_cap=8.0, queries=0.1, **FOUR)


def gemma3():
    """Five of six layers have a window and turn by a base of their own; linear scaling is of the others. Newer folders name each layer."""
    base = {**GEMMA, "architectures": ["Gemma3ForCausalLM"], "sliding_window": 5, "query_pre_attn_scalar": 24}
    linear = {"rope_type": "linear", "factor": 8.0}
    for name, config, full in [
            ("gemma3", {"num_hidden_layers": 7, "rope_theta": 1000000.0, "rope_local_base_freq": 10000.0, "rope_scaling": linear,
                        "sliding_window_pattern": 6}, lambda layer: layer == 5),
            ("gemma3-types", {"layer_types": ["sliding_attention", "full_attention", "sliding_attention"], "rope_parameters": {
                "full_attention": {"rope_theta": 1000000.0, **linear},
                "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}}, lambda layer: layer == 1)]:
        m = Model({**base, **config})
        every = np.arange(0, 24, 2) / 24
        freqs = lambda layer: 1000000.0 ** -every / 8 if full(layer) else 10000.0 ** -every
        yield name, m, 128, run(m, rms1p, freqs, geglu, window=lambda layer: None if full(layer) else 5, embedding=8.0, heads=head_norms1p, **FOUR)


def head_norms(m, q, k, p):
    return tuple(rms_norm(t, m.get(f"{p}self_attn.{n}_norm.weight", m.head_dim, offset=0.5), m.c["rms_norm_eps"]) for n, t in (("q", q), ("k", k)))


def exaone4():
    """Where there are windows, the layers without one are not rotated; where there are none, all are."""
    base = {"architectures": ["Exaone4ForCausalLM"], "hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_theta": 1000000.0}
    m = Model({**base, "num_hidden_layers": 5, "sliding_window": 6, "sliding_window_pattern": "LLLG"})
    every, full = frequencies(m, 16), lambda layer: layer == 3
    yield "exaone4", m, 128, run(m, rms, lambda layer: None if full(layer) else every, swiglu, window=lambda layer: None if full(layer) else 6,
                                 before=None, after=AFTER, heads=head_norms)
    m = Model({**base, "sliding_window": None, "tie_word_embeddings": True})
    yield "exaone4-small", m, 128, run(m, rms, every, swiglu, before=None, after=AFTER, heads=head_norms)
    m = Model({**base, "num_hidden_layers": 5, "sliding_window": 6, "num_nextn_predict_layers": 1,
               "layer_types": ["sliding_attention"] * 3 + ["full_attention", "sliding_attention"]})
    m.folder = {"architectures": ["Exaone4_5_ForConditionalGeneration"], "text_config": {k: v for k, v in m.c.items() if k != "architectures"},
                "vision_config": {"hidden_size": 8}}
    logits = run(m, rms, lambda layer: None if full(layer) else every, swiglu, window=lambda layer: None if full(layer) else 6,
                 before=None, after=AFTER, heads=head_norms, root="model.language_model.")
    m.get("mtp.fc.weight", 64, 128)
    m.get("model.visual.patch_embed.proj.weight", 8, 12)
    yield "exaone4_5", m, 128, logits


def seed_oss():
    m = Model({"architectures": ["SeedOssForCausalLM"], "hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 10000000.0, "head_dim": 24,
               "attention_bias": True})
    yield "seed-oss", m, 128, run(m, rms, frequencies(m, 24), swiglu, biased=True, queries=0.1)


def rotate_neighbours(x, freqs, magnitude=1.0):
    """As rotate, but the pairs are of elements 2i and 2i+1."""
    n = 2 * len(freqs)
    order = np.concatenate([np.arange(0, n, 2), np.arange(1, n, 2)])
    turned = rotate(x[..., order], freqs, magnitude)
    out = x.copy()
    out[..., order] = turned
    return out


def glm4():
    m = Model({"architectures": ["Glm4ForCausalLM"], "hidden_act": "silu", "rms_norm_eps": 1e-5, "head_dim": 24, "partial_rotary_factor": 0.5,
               "attention_bias": True})
    norms = {"before": ("input_layernorm", "post_attention_layernorm"), "after": ("post_self_attn_layernorm", "post_mlp_layernorm")}
    yield "glm4", m, 128, run(m, rms, frequencies(m, 12), gated, biased=True, queries=0.1, turn=rotate_neighbours, **norms)
    # Text has the same position in every section, which is plain rotation.
    m = Model({"hidden_act": "silu", "rms_norm_eps": 1e-5, "head_dim": 24, "partial_rotary_factor": 0.5, "attention_bias": True, "rope_theta": 10000.0,
               "rope_scaling": {"rope_type": "default", "mrope_section": [2, 2, 2]}})
    m.folder = {"architectures": ["Glm4vForConditionalGeneration"], "text_config": m.c, "tie_word_embeddings": False, "vision_config": {"hidden_size": 8}}
    logits = run(m, rms, frequencies(m, 12), gated, biased=True, queries=0.1, turn=rotate_neighbours, root="model.language_model.", **norms)
    m.get("model.visual.patch_embed.proj.weight", 8, 12)
    yield "glm4v", m, 128, logits


def gemma3_pictures():
    """The text part of a folder with pictures; what its text_config leaves out is usual. With 8 heads of 8 elements, and 4 of keys."""
    m = Model({**GEMMA, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 8})
    text = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 7, "vocab_size": 48, "head_dim": 8, "sliding_window": 5,
            "rope_scaling": {"rope_type": "linear", "factor": 8.0}}
    m.c["num_hidden_layers"] = 7
    m.folder = {"architectures": ["Gemma3ForConditionalGeneration"], "text_config": text, "vision_config": {"hidden_size": 8}}
    every, full = np.arange(0, 8, 2) / 8, lambda layer: layer == 5
    freqs = lambda layer: 1000000.0 ** -every / 8 if full(layer) else 10000.0 ** -every
    logits = run(m, rms1p, freqs, geglu, window=lambda layer: None if full(layer) else 5, embedding=8.0, heads=head_norms1p, scale=1 / 16,
                 root="language_model.model.", **FOUR)
    m.get("vision_tower.vision_model.embeddings.patch_embedding.weight", 8, 3, 2, 2)
    m.get("multi_modal_projector.mm_input_projection_weight", 8, 64)
    yield "gemma3-pictures", m, 131072, logits


def bare_layer_norm(m, x, name):
    return layer_norm(x, m.get(name + ".weight", m.c["hidden_size"], offset=1.0), 0, m.c["layer_norm_eps"])


def command_r():
    """Attention and mlp read the same norm, which has no bias; logits are multiplied by a factor."""
    m = Model({"architectures": ["CohereForCausalLM"], "hidden_act": "silu", "layer_norm_eps": 1e-5, "rope_theta": 8000000.0, "logit_scale": 0.25,
               "tie_word_embeddings": True, "max_position_embeddings": 64, "model_max_length": 128, "use_qk_norm": False})
    yield "command-r", m, 128, run(m, bare_layer_norm, frequencies(m, 16), swiglu, before=("input_layernorm",), parallel=True, logits=4.0,
                                   turn=rotate_neighbours, queries=0.1)


def cohere2():
    """Three of four layers have a window; the others are not rotated."""
    m = Model({"architectures": ["Cohere2ForCausalLM"], "hidden_act": "silu", "layer_norm_eps": 1e-5, "rope_theta": 50000.0, "logit_scale": 0.25,
               "num_hidden_layers": 5, "sliding_window": 6, "sliding_window_pattern": 4, "tie_word_embeddings": True})
    every, full = frequencies(m, 16), lambda layer: layer == 3
    yield "cohere2", m, 128, run(m, bare_layer_norm, lambda layer: None if full(layer) else every, swiglu, before=("input_layernorm",),
                                 window=lambda layer: None if full(layer) else 6, parallel=True, logits=4.0, turn=rotate_neighbours, queries=0.1)


def mistral3():
    """Queries grow with the logarithm of how many original contexts lie before them. With two such factors YaRN's magnitude is their quotient."""
    yarned = {"type": "yarn", "rope_type": "yarn", "rope_theta": 1000000.0, "factor": 16.0, "original_max_position_embeddings": 8, "beta_fast": 2.0,
              "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 0.5, "llama_4_scaling_beta": 0.75}
    m = Model({"rms_norm_eps": 1e-5, "head_dim": 24})
    m.folder = {"architectures": ["Mistral3ForConditionalGeneration"], "model_type": "mistral3", "text_config": {
        **m.c, "model_type": "ministral3", "hidden_act": "silu", "sliding_window": None, "rope_parameters": yarned}, "vision_config": {"hidden_size": 8}}
    freqs = yarn(1000000.0 ** (-np.arange(0, 24, 2) / 24), 24, 1000000.0, 16.0, 8, fast=2.0)
    size = lambda scale: 1 + 0.1 * scale * math.log(16)
    logits = run(m, rms, freqs, swiglu, magnitude=size(1.0) / size(0.5), temperature=1 + 0.75 * np.log(1 + np.arange(len(TOKENS)) // 8), queries=0.1,
                 root="language_model.model.", head="language_model.lm_head.weight")
    m.get("vision_tower.transformer.layers.0.attention.q_proj.weight", 8, 8)
    yield "mistral3", m, 128, logits


def biased_layer_norm(m, x, name):
    w = m.get(name + ".weight", m.c["hidden_size"], offset=1.0)
    return layer_norm(x, w, m.get(name + ".bias", m.c["hidden_size"]), m.c["norm_epsilon"])


def biased_gelu(m, h, p):
    hidden, ff = m.c["hidden_size"], m.c["intermediate_size"]
    up = h @ m.get(p + "c_fc.weight", ff, hidden).T + m.get(p + "c_fc.bias", ff)
    return gelu(up) @ m.get(p + "c_proj.weight", hidden, ff).T + m.get(p + "c_proj.bias", hidden)


def starcoder2():
    m = Model({"architectures": ["Starcoder2ForCausalLM"], "hidden_act": "gelu_pytorch_tanh", "norm_epsilon": 1e-5, "rope_theta": 999999.0,
               "sliding_window": 9, "use_bias": True, "tie_word_embeddings": True})
    yield "starcoder2", m, 128, run(m, biased_layer_norm, frequencies(m, 16), biased_gelu, window=9, biased="all", queries=0.1)


def qwen_vl():
    """Text has the same position in every section, which is plain rotation. Folders of older and newer form."""
    m = Model({"architectures": ["Qwen2_5_VLForConditionalGeneration"], "hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 1000000.0,
               "rope_scaling": {"type": "mrope", "mrope_section": [2, 3, 3]}, "use_sliding_window": False, "sliding_window": 32768,
               "vision_config": {"hidden_size": 8}})
    logits = run(m, rms, frequencies(m, 16), swiglu, biased=True, queries=0.1)
    m.get("visual.patch_embed.proj.weight", 8, 12)
    yield "qwen2vl", m, 128, logits
    m = Model({"rms_norm_eps": 1e-6, "rope_theta": 5000000.0, "head_dim": 24, "tie_word_embeddings": True})
    m.folder = {"architectures": ["Qwen3VLForConditionalGeneration"], "tie_word_embeddings": True, "text_config": {
        **{k: v for k, v in m.c.items() if k != "tie_word_embeddings"}, "hidden_act": "silu",
        "rope_scaling": {"rope_type": "default", "mrope_interleaved": True, "mrope_section": [6, 3, 3]}},
        "vision_config": {"hidden_size": 8, "deepstack_visual_indexes": [0, 1]}}
    logits = run(m, rms, frequencies(m, 24), swiglu, heads=head_norms, root="model.language_model.")
    m.get("model.visual.deepstack_merger_list.0.norm.weight", 8)
    yield "qwen3vl", m, 128, logits


def layer_norm_of(m, x, name, eps):
    n = x.shape[-1]
    return layer_norm(x, m.get(name + ".weight", n, offset=1.0), m.get(name + ".bias", n), eps)


def linear(m, x, name, out, bias=True, scale=0.25):
    """Weights [out, in], as torch.nn.Linear stores them."""
    y = x @ m.get(name + ".weight", out, x.shape[-1], scale=scale).T
    return y + m.get(name + ".bias", out) if bias else y


def heads_of(x, dim):
    return x.reshape(len(x), -1, dim)


def gpt2():
    """Matrices are stored as [in, out]; q, k and v lie one after the other."""
    m = Model({"architectures": ["GPT2LMHeadModel"], "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5, "n_embd": 64, "n_layer": 3,
               "n_head": 4, "n_positions": 128, "n_ctx": 128, "tie_word_embeddings": True})
    for other in ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "max_position_embeddings"):
        del m.c[other]

    def conv1d(x, name, out, scale=0.25):
        return x @ m.get(name + ".weight", x.shape[-1], out, scale=scale) + m.get(name + ".bias", out)

    embedding = m.get("transformer.wte.weight", 48, 64)
    x = embedding[TOKENS] + m.get("transformer.wpe.weight", 128, 64)[:len(TOKENS)]
    for layer in range(3):
        p = f"transformer.h.{layer}."
        q, k, v = (heads_of(t, 16) for t in np.split(conv1d(layer_norm_of(m, x, p + "ln_1", 1e-5), p + "attn.c_attn", 192, scale=0.15), 3, -1))
        x = x + conv1d(attention(q, k, v), p + "attn.c_proj", 64)
        x = x + conv1d(gelu(conv1d(layer_norm_of(m, x, p + "ln_2", 1e-5), p + "mlp.c_fc", 256)), p + "mlp.c_proj", 64)
    yield "gpt2", m, 128, layer_norm_of(m, x, "transformer.ln_f", 1e-5) @ embedding.T


def gelu_erf(x):
    return 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def gptneox():
    """q, k and v of a head lie together; both parts read the block's input, or one follows the other."""
    for name, config in [("gptneox", {"rotary_pct": 0.25, "use_parallel_residual": True}),
                         ("gptneox-sequential", {"rotary_pct": 0.5, "rotary_emb_base": 5000, "use_parallel_residual": False})]:
        m = Model({"architectures": ["GPTNeoXForCausalLM"], "hidden_act": "gelu", "layer_norm_eps": 1e-5, **config})
        m.c["num_key_value_heads"] = None
        dims = int(16 * config["rotary_pct"])
        freqs = config.get("rotary_emb_base", 10000.0) ** (-np.arange(0, dims, 2) / dims)
        x = m.get("gpt_neox.embed_in.weight", 48, 64)[TOKENS]
        for layer in range(3):
            p = f"gpt_neox.layers.{layer}."
            qkv = linear(m, layer_norm_of(m, x, p + "input_layernorm", 1e-5), p + "attention.query_key_value", 192, scale=0.15)
            q, k, v = (qkv.reshape(len(x), 4, 3, 16)[:, :, i] for i in range(3))
            y = linear(m, attention(rotate(q, freqs), rotate(k, freqs), v), p + "attention.dense", 64)
            read = x if config["use_parallel_residual"] else x + y
            h = linear(m, layer_norm_of(m, read, p + "post_attention_layernorm", 1e-5), p + "mlp.dense_h_to_4h", 96)
            x = x + y + linear(m, gelu_erf(h), p + "mlp.dense_4h_to_h", 64)
        yield name, m, 128, linear(m, layer_norm_of(m, x, "gpt_neox.final_layer_norm", 1e-5), "embed_out", 48, bias=False)


def internlm2():
    """q, k and v lie in groups: the query heads that share a KV head, then their key, then their value."""
    m = Model({"architectures": ["InternLM2ForCausalLM"], "hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_theta": 1000000, "bias": False,
               "num_attention_heads": 8, "num_key_value_heads": 2})
    freqs = 1000000.0 ** (-np.arange(0, 8, 2) / 8)
    x = m.get("model.tok_embeddings.weight", 48, 64)[TOKENS]
    for layer in range(3):
        p = f"model.layers.{layer}."
        qkv = linear(m, rms(m, x, p + "attention_norm"), p + "attention.wqkv", 96, bias=False, scale=0.15).reshape(len(x), 2, 6, 8)
        q, k, v = qkv[:, :, :4].reshape(len(x), 8, 8), qkv[:, :, 4], qkv[:, :, 5]
        x = x + linear(m, attention(rotate(q, freqs), rotate(k, freqs), v), p + "attention.wo", 64, bias=False)
        h = rms(m, x, p + "ffn_norm")
        h = silu(linear(m, h, p + "feed_forward.w1", 96, bias=False)) * linear(m, h, p + "feed_forward.w3", 96, bias=False)
        x = x + linear(m, h, p + "feed_forward.w2", 64, bias=False)
    yield "internlm2", m, 128, linear(m, rms(m, x, "model.norm"), "output", 48, bias=False)


def phi2():
    m = Model({"architectures": ["PhiForCausalLM"], "hidden_act": "gelu_new", "layer_norm_eps": 1e-5, "partial_rotary_factor": 0.4,
               "hidden_size": 160, "num_key_value_heads": 4})
    freqs = frequencies(m, 16)
    x = m.get("model.embed_tokens.weight", 48, 160)[TOKENS]
    for layer in range(3):
        p = f"model.layers.{layer}."
        h = layer_norm_of(m, x, p + "input_layernorm", 1e-5)
        q, k, v = (heads_of(linear(m, h, f"{p}self_attn.{n}_proj", 160, scale=0.06), 40) for n in "qkv")
        y = linear(m, attention(rotate(q, freqs), rotate(k, freqs), v), p + "self_attn.dense", 160)
        x = x + y + linear(m, gelu(linear(m, h, p + "mlp.fc1", 96)), p + "mlp.fc2", 160)
    yield "phi2", m, 128, linear(m, layer_norm_of(m, x, "model.final_layernorm", 1e-5), "lm_head", 48)


def chatglm():
    """The form of the models' own code, with names of its own; and that of transformers, which has one tensor for each."""
    c = {"architectures": ["ChatGLMModel"], "num_layers": 3, "padded_vocab_size": 48, "seq_length": 128, "ffn_hidden_size": 96, "kv_channels": 16,
         "layernorm_epsilon": 1e-5, "multi_query_attention": True, "multi_query_group_num": 2, "rope_ratio": 50, "add_qkv_bias": True}
    m = Model(c)
    for other in ("intermediate_size", "num_hidden_layers", "num_key_value_heads", "max_position_embeddings"):
        del m.c[other]
    freqs = 500000.0 ** (-np.arange(0, 8, 2) / 8)
    norm = lambda x, name: rms_norm(x, m.get(name + ".weight", 64, offset=1.0), 1e-5)
    x = m.get("transformer.embedding.word_embeddings.weight", 48, 64)[TOKENS]
    for layer in range(3):
        p = f"transformer.encoder.layers.{layer}."
        qkv = linear(m, norm(x, p + "input_layernorm"), p + "self_attention.query_key_value", 128, scale=0.15)
        q, k, v = (heads_of(t, 16) for t in np.split(qkv, [64, 96], -1))
        y = attention(rotate_neighbours(q, freqs), rotate_neighbours(k, freqs), v)
        x = x + linear(m, y, p + "self_attention.dense", 64, bias=False)
        gate, up = np.split(linear(m, norm(x, p + "post_attention_layernorm"), p + "mlp.dense_h_to_4h", 192, bias=False), 2, -1)
        x = x + linear(m, silu(gate) * up, p + "mlp.dense_4h_to_h", 64, bias=False)
    yield "chatglm", m, 128, linear(m, norm(x, "transformer.encoder.final_layernorm"), "transformer.output_layer", 48, bias=False)
    m = Model({"architectures": ["GlmForCausalLM"], "hidden_act": "silu", "rms_norm_eps": 1e-5, "head_dim": 16, "partial_rotary_factor": 0.5,
               "attention_bias": True})
    yield "chatglm-hf", m, 128, run(m, rms, frequencies(m, 8), gated, biased=True, queries=0.1, turn=rotate_neighbours)


def jais2():
    m = Model({"architectures": ["Jais2ForCausalLM"], "hidden_act": "relu2", "layer_norm_eps": 1e-5, "num_key_value_heads": 4, "mlp_bias": True,
               "attention_bias": True, "rope_theta": 500000.0})
    freqs = frequencies(m, 16)
    x = m.get("model.embed_tokens.weight", 48, 64)[TOKENS]
    for layer in range(3):
        p = f"model.layers.{layer}."
        h = layer_norm_of(m, x, p + "input_layernorm", 1e-5)
        q, k, v = (heads_of(linear(m, h, f"{p}self_attn.{n}_proj", 64, scale=0.15), 16) for n in "qkv")
        x = x + linear(m, attention(rotate(q, freqs), rotate(k, freqs), v), p + "self_attn.o_proj", 64)
        h = linear(m, layer_norm_of(m, x, p + "post_attention_layernorm", 1e-5), p + "mlp.up_proj", 96)
        x = x + linear(m, relu2(h), p + "mlp.down_proj", 64, scale=0.06)
    yield "jais2", m, 128, linear(m, layer_norm_of(m, x, "model.norm", 1e-5), "lm_head", 48, bias=False)


def alibi(heads, most=8.0):
    """The slopes of the paper: for 2^a heads the powers of 2^(-most/2^a), for others those and every second of the next power of two."""
    if heads & (heads - 1) == 0:
        return [2.0 ** (-most * (h + 1) / heads) for h in range(heads)]
    whole = 1 << (heads.bit_length() - 1)
    return alibi(whole, most) + alibi(2 * whole, most)[::2][:heads - whole]


def mpt():
    """Six heads, so that slopes are not those of a power of two. Without biases; queries, keys and values are clamped. And with learned positions
    in place of slopes, biases, and keys that heads share."""
    for name, positions in (("mpt", False), ("mpt-positions", True)):
        kv = 2 if positions else 6
        config = {"attn_type": "grouped_query_attention" if positions else "multihead_attention", "kv_n_heads": kv, "alibi": not positions,
                  "alibi_bias_max": 6, "clip_qkv": None if positions else 0.75, "qk_ln": False, "prefix_lm": False, "softmax_scale": None}
        m = Model({"architectures": ["MPTForCausalLM"], "d_model": 96, "n_heads": 6, "n_layers": 3, "expansion_ratio": 2, "max_seq_len": 128,
                   "no_bias": not positions, "attn_config": config, "tie_word_embeddings": None})
        for other in ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "max_position_embeddings"):
            del m.c[other]
        norm = lambda x, n: layer_norm(x, m.get(n + ".weight", 96, offset=1.0), m.get(n + ".bias", 96) if positions else 0, 1e-5)
        embedding = m.get("transformer.wte.weight", 48, 96)
        x = embedding[TOKENS]
        if positions:
            x = x + m.get("transformer.wpe.weight", 128, 96)[:len(TOKENS)]
        for layer in range(3):
            p = f"transformer.blocks.{layer}."
            qkv = linear(m, norm(x, p + "norm_1"), p + "attn.Wqkv", 16 * (6 + 2 * kv), bias=positions, scale=0.1)
            if not positions:
                qkv = np.clip(qkv, -0.75, 0.75)
            q, k, v = (heads_of(t, 16) for t in np.split(qkv, [96, 96 + 16 * kv], -1))
            x = x + linear(m, attention(q, k, v, slopes=None if positions else alibi(6, 6.0)), p + "attn.out_proj", 96, bias=positions)
            h = gelu_erf(linear(m, norm(x, p + "norm_2"), p + "ffn.up_proj", 192, bias=positions))
            x = x + linear(m, h, p + "ffn.down_proj", 96, bias=positions)
        yield name, m, 128, norm(x, "transformer.norm_f") @ embedding.T


def bloom():
    m = Model({"architectures": ["BloomForCausalLM"], "n_layer": 3, "n_head": 4, "seq_length": 128, "layer_norm_epsilon": 1e-5})
    for other in ("intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "max_position_embeddings", "tie_word_embeddings"):
        del m.c[other]
    embedding = m.get("transformer.word_embeddings.weight", 48, 64)
    x = layer_norm_of(m, embedding[TOKENS], "transformer.word_embeddings_layernorm", 1e-5)
    for layer in range(3):
        p = f"transformer.h.{layer}."
        qkv = linear(m, layer_norm_of(m, x, p + "input_layernorm", 1e-5), p + "self_attention.query_key_value", 192, scale=0.15)
        q, k, v = (qkv.reshape(len(x), 4, 3, 16)[:, :, i] for i in range(3))
        x = x + linear(m, attention(q, k, v, slopes=alibi(4)), p + "self_attention.dense", 64)
        h = gelu(linear(m, layer_norm_of(m, x, p + "post_attention_layernorm", 1e-5), p + "mlp.dense_h_to_4h", 256))
        x = x + linear(m, h, p + "mlp.dense_4h_to_h", 64)
    yield "bloom", m, 128, layer_norm_of(m, x, "transformer.ln_f", 1e-5) @ embedding.T


def baichuan():
    """7B by its layers, rotated; and 13B of the second series, with slopes and a head of unit rows."""
    for name, layers, config in (("baichuan-7b", 32, {}), ("baichuan-13b", 40, {"z_loss_weight": 0, "model_max_length": 128})):
        m = Model({"architectures": ["BaichuanForCausalLM"], "hidden_act": "silu", "rms_norm_eps": 1e-6, "num_hidden_layers": layers, "hidden_size": 32,
                   "intermediate_size": 32, **config})
        m.c["num_key_value_heads"] = None
        if config:
            del m.c["max_position_embeddings"]
        freqs = frequencies(m, 8)
        x = m.get("model.embed_tokens.weight", 48, 32)[TOKENS]
        for layer in range(layers):
            p = f"model.layers.{layer}."
            qkv = linear(m, rms(m, x, p + "input_layernorm"), p + "self_attn.W_pack", 96, bias=False, scale=0.2)
            q, k, v = (heads_of(t, 8) for t in np.split(qkv, 3, -1))
            y = attention(q, k, v, slopes=alibi(4)) if config else attention(rotate(q, freqs), rotate(k, freqs), v)
            x = x + linear(m, y, p + "self_attn.o_proj", 32, bias=False, scale=0.1)
            h = rms(m, x, p + "post_attention_layernorm")
            h = silu(linear(m, h, p + "mlp.gate_proj", 32, bias=False)) * linear(m, h, p + "mlp.up_proj", 32, bias=False)
            x = x + linear(m, h, p + "mlp.down_proj", 32, bias=False, scale=0.1)
        head = m.get("lm_head.weight", 48, 32)
        if config:
            head = head / np.linalg.norm(head, axis=-1, keepdims=True)
        yield name, m, 128, rms(m, x, "model.norm") @ head.T


def latent_attention(m, h, p, freqs, turn, eps, scale=None):
    """Multi-head latent attention (DeepSeek-AI 2024, section 2.1), with keys and values of each head as they are defined. h is the block's input."""
    c = m.c
    heads, own, turned, value, width = c["num_attention_heads"], c["qk_nope_head_dim"], c["qk_rope_head_dim"], c["v_head_dim"], c["kv_lora_rank"]
    norm = lambda x, name, n: rms_norm(x, m.get(p + "self_attn." + name + ".weight", n, offset=1.0), eps)
    if c["q_lora_rank"]:
        q = norm(linear(m, h, p + "self_attn.q_a_proj", c["q_lora_rank"], bias=False), "q_a_layernorm", c["q_lora_rank"])
        q = linear(m, q, p + "self_attn.q_b_proj", heads * (own + turned), bias=False, scale=0.1)
    else:
        q = linear(m, h, p + "self_attn.q_proj", heads * (own + turned), bias=False, scale=0.1)
    q = heads_of(q, own + turned)
    both = linear(m, h, p + "self_attn.kv_a_proj_with_mqa", width + turned, bias=False)
    shared = turn(both[:, None, width:], freqs)
    kv = heads_of(linear(m, norm(both[:, :width], "kv_a_layernorm", width), p + "self_attn.kv_b_proj", heads * (own + value), bias=False), own + value)
    q = np.concatenate([q[..., :own], turn(q[..., own:], freqs)], -1)
    k = np.concatenate([kv[..., :own], np.repeat(shared, heads, 1)], -1)
    return linear(m, attention(q, k, kv[..., own:], scale=scale), p + "self_attn.o_proj", c["hidden_size"], bias=False)


def plm():
    """Keys of 16 elements of their own and 8 rotated ones that all heads share; values of 8."""
    m = Model({"architectures": ["PLMForCausalLM"], "hidden_act": "relu2", "rms_norm_eps": 1e-6, "num_key_value_heads": 4, "kv_lora_rank": 24,
               "q_lora_rank": None, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 8, "tie_word_embeddings": True})
    freqs = frequencies(m, 8)
    embedding = m.get("model.embed_tokens.weight", 48, 64, scale=Block().table)
    x = embedding[TOKENS]
    for layer in range(3):
        p = f"model.layers.{layer}."
        x = x + latent_attention(m, rms(m, x, p + "input_layernorm"), p, freqs, rotate_neighbours, 1e-6)
        h = relu2(linear(m, rms(m, x, p + "post_attention_layernorm"), p + "mlp.up_proj", 96, bias=False))
        x = x + linear(m, h, p + "mlp.down_proj", 64, bias=False, scale=0.06)
    yield "plm", m, 128, rms(m, x, "model.norm") @ embedding.T


def latent_decoder(m, freqs, turn, scale=None, residual=1.0, embedding=1.0, mlp=None):
    """Three blocks of latent attention and a gated layer, or what mlp gives in place of it, and the last norm."""
    x = m.get("model.embed_tokens.weight", 48, 64)[TOKENS] * embedding
    for layer in range(3):
        p = f"model.layers.{layer}."
        x = x + residual * latent_attention(m, rms(m, x, p + "input_layernorm"), p, freqs, turn, m.c["rms_norm_eps"], scale)
        h = rms(m, x, p + "post_attention_layernorm")
        y = mlp(m, h, p + "mlp.") if mlp else None
        if y is None:
            h = silu(linear(m, h, p + "mlp.gate_proj", 96, bias=False)) * linear(m, h, p + "mlp.up_proj", 96, bias=False)
            y = linear(m, h, p + "mlp.down_proj", 64, bias=False)
        x = x + residual * y
    return rms(m, x, "model.norm")


def minicpm():
    """Factors of the embedding, the residual and the head; a context of at most the original takes the short factors."""
    base = {"architectures": ["MiniCPMForCausalLM"], "hidden_act": "silu", "rms_norm_eps": 1e-5, "scale_emb": 12, "scale_depth": 1.4, "dim_model_base": 32}
    m = Model({**base, "tie_word_embeddings": True})
    del m.c["tie_word_embeddings"]  # as in MiniCPM 1 and 2, where it is
    m.folder, m.c = m.c, {**m.c, "tie_word_embeddings": True}
    factors = {"embedding": 12, "residual": 1.4 / math.sqrt(3), "logits": 64 / 32}
    yield "minicpm", m, 128, run(m, rms, frequencies(m, 16), swiglu, table=0.1, queries=0.1, **factors)
    scaling = {"short_factor": [1 + 0.125 * i for i in range(8)], "long_factor": [1 + 0.75 * i for i in range(8)]}
    for name, context, chosen in (("minicpm-short", 64, "short_factor"), ("minicpm-long", 65, "long_factor")):
        m = Model({**base, "rope_scaling": {"rope_type": "longrope", **scaling, "original_max_position_embeddings": 64}})
        magnitude = math.sqrt(1 + math.log(128 / 64) / math.log(64))
        yield name, m, context, run(m, rms, frequencies(m, 16) / np.array(scaling[chosen]), swiglu, magnitude=magnitude, table=0.1, queries=0.1, **factors)


def ernie_dense():
    m = Model({"architectures": ["Ernie4_5ForCausalLM"], "hidden_act": "silu", "rms_norm_eps": 1e-5, "head_dim": 24, "rope_theta": 500000.0,
               "tie_word_embeddings": True})
    yield "ernie4_5", m, 128, run(m, rms, frequencies(m, 24), swiglu, turn=rotate_neighbours)


def hunyuan():
    """Each head of queries and keys is normed behind its rotation, whose base grows by a power of alpha."""
    def turned(m, q, k, p):
        return tuple(rms_norm(t, m.get(f"{p}self_attn.{n}_layernorm.weight", m.head_dim, offset=0.5), 1e-5) for n, t in (("query", q), ("key", k)))
    for name, scaling in (("hunyuan-dense", {"type": "dynamic", "alpha": 1000.0, "factor": 1.0}), ("hunyuan-dense-plain", None)):
        m = Model({"architectures": ["HunYuanDenseV1ForCausalLM"], "hidden_act": "silu", "rms_norm_eps": 1e-5, "head_dim": 24, "rope_theta": 10000.0,
                   "rope_scaling": scaling, "tie_word_embeddings": scaling is not None})
        base = 10000.0 * (1000.0 ** (24 / 22) if scaling else 1)
        yield name, m, 128, run(m, rms, base ** (-np.arange(0, 24, 2) / 24), swiglu, turned=turned)


def exaone():
    """Llama 3's scaling of the rotation, which slows long waves down."""
    m = Model({"architectures": ["ExaoneForCausalLM"], "activation_function": "silu", "layer_norm_epsilon": 1e-5, "num_layers": 3, "rope_theta": 1000000.0,
               "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}})
    del m.c["num_hidden_layers"]
    freqs = frequencies(m, 16)
    waves = 2 * math.pi / freqs
    smooth = np.clip((64 / waves - 1) / (4 - 1), 0, 1)  # 0: long waves, 1: short ones
    freqs = freqs * (smooth + (1 - smooth) / 8)
    norm = lambda x, name: rms_norm(x, m.get(name + ".weight", 64, offset=1.0), 1e-5)
    x = m.get("transformer.wte.weight", 48, 64, scale=1.0)[TOKENS]
    for layer in range(3):
        p = f"transformer.h.{layer}."
        h = norm(x, p + "ln_1")
        q, k, v = (heads_of(linear(m, h, f"{p}attn.attention.{n}_proj", w, bias=False), 16) for n, w in (("q", 64), ("k", 32), ("v", 32)))
        x = x + linear(m, attention(rotate(q, freqs), rotate(k, freqs), v), p + "attn.attention.out_proj", 64, bias=False)
        h = norm(x, p + "ln_2")
        h = silu(linear(m, h, p + "mlp.c_fc_0", 96, bias=False)) * linear(m, h, p + "mlp.c_fc_1", 96, bias=False)
        x = x + linear(m, h, p + "mlp.c_proj", 64, bias=False)
    yield "exaone", m, 128, linear(m, norm(x, "transformer.ln_f"), "lm_head", 48, bias=False)


def minicpm3():
    """Queries, too, follow from a narrower vector; the configuration has factors of the embedding, the residual and the head."""
    m = Model({"architectures": ["MiniCPM3ForCausalLM"], "hidden_act": "silu", "rms_norm_eps": 1e-5, "num_key_value_heads": 4, "kv_lora_rank": 32,
               "q_lora_rank": 40, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16, "scale_emb": 12, "scale_depth": 1.4,
               "dim_model_base": 32, "tie_word_embeddings": True, "rope_scaling": {
                   "rope_type": "longrope", "long_factor": [1.0, 1.5, 2.5, 4.0], "short_factor": [1.0, 1.0, 1.1, 1.2], "original_max_position_embeddings": 128}})
    freqs = frequencies(m, 8) / np.array(m.c["rope_scaling"]["short_factor"])
    h = latent_decoder(m, freqs, rotate, residual=1.4 / math.sqrt(3), embedding=12)
    yield "minicpm3", m, 128, h / (64 / 32) @ m.get("model.embed_tokens.weight", 48, 64).T


def deepseek2():
    """The larger models' queries and YaRN, whose multiplier goes to the scores, and the smaller models' queries; each without experts and with; and
    V2's experts in groups."""
    for name, architecture, queries, scaled, kinds in (("deepseek2", "DeepseekV3ForCausalLM", 40, True, (None, "experts")),
                                                       ("deepseek2-lite", "DeepseekV2ForCausalLM", None, False, (None, "experts")),
                                                       ("deepseek2-v2", "DeepseekV2ForCausalLM", 40, False, ("groups",))):
        for mixture in kinds:
            m = Model({"architectures": [architecture], "hidden_act": "silu", "rms_norm_eps": 1e-6, "num_key_value_heads": 4, "kv_lora_rank": 32,
                       "q_lora_rank": queries, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 24, "num_hidden_layers": 3})
            freqs, scale = frequencies(m, 8), None
            if scaled:
                m.c["rope_scaling"] = {"type": "yarn", "factor": 8, "original_max_position_embeddings": 16, "beta_fast": 2.0, "beta_slow": 1.0,
                                       "mscale": 0.707, "mscale_all_dim": 0.707}
                freqs = yarn(freqs, 8, 10000.0, 8.0, 16, fast=2.0)
                scale = (0.1 * 0.707 * math.log(8) + 1) ** 2 / math.sqrt(24)
            if mixture:
                m.c.update({"moe_intermediate_size": 32, "n_routed_experts": 8, "n_shared_experts": 2, "num_experts_per_tok": 3, "first_k_dense_replace": 1,
                            "moe_layer_freq": 1, "norm_topk_prob": scaled, "routed_scaling_factor": 2.5 if scaled else 1.0,
                            "scoring_func": "sigmoid" if scaled else "softmax", "topk_method": "noaux_tc" if scaled else "greedy",
                            "n_group": 4 if scaled else 1, "topk_group": 2 if scaled else 1})
            if mixture == "groups":
                m.c.update({"topk_method": "group_limited_greedy", "n_group": 4, "topk_group": 2})
            h = latent_decoder(m, freqs, rotate_neighbours, scale, mlp=deepseek_experts if mixture else None)
            yield name + ("-" + mixture if mixture else ""), m, 128, h @ m.get("lm_head.weight", 48, 64).T


def deepseek_experts(m, h, p, scoring=None):
    """Layer 0 has none. With sigmoids a bias counts for the choice, from those groups whose two best experts have the largest sum (DeepSeek-AI 2024b).
    With group_limited_greedy experts are chosen from the groups with the best experts (DeepSeek-AI 2024a)."""
    if ".0." in p:
        return None
    c, logits = m.c, router(m, h, p + "gate.weight", 8)
    if (scoring or c["scoring_func"]) == "sigmoid":
        scores = 1 / (1 + np.exp(-logits))
        rank = scores + m.get(p + "gate.e_score_correction_bias", 8, scale=0.1)
        groups = np.sort(rank.reshape(len(h), c["n_group"], -1), -1)[..., -2:].sum(-1)
        best = np.argsort(-groups, -1)[:, :c["topk_group"]]
        wide = 8 // c["n_group"]
        for t in range(len(h)):
            for g in range(c["n_group"]):
                if g not in best[t]:
                    rank[t, wide * g:wide * (g + 1)] = -np.inf
        weights = normalised(chosen(rank, scores, 3))
    else:
        rank, scores = logits, softmax(logits)
        if c.get("topk_method") == "group_limited_greedy":
            groups = logits.reshape(len(h), c["n_group"], -1)
            gap(groups.max(-1), c["topk_group"])
            used = np.argsort(np.argsort(-groups.max(-1), -1), -1) < c["topk_group"]
            rank = np.where(used[..., None], groups, -np.inf).reshape(logits.shape)
        weights = chosen(rank, scores, 3)
    shared = expert_mlp(m, h, 64, *(f"{p}shared_experts.{w}.weight" for w in PROJECTIONS))
    return shared + experts(m, h, c["routed_scaling_factor"] * weights, [f"{p}experts.%d.{w}.weight" for w in PROJECTIONS], 32)


def plain_rms(m, x, name, offset=1.0, scale=0.25):
    return rms_norm(x, m.get(name + ".weight", x.shape[-1], scale=scale, offset=offset), m.c["rms_norm_eps"])


def layer_inputs(m, x, root):
    """Every layer's own embedding of the tokens [n, layers, width], x being their usual ones."""
    c, width = m.c, m.c["hidden_size_per_layer_input"]
    wide = c["num_hidden_layers"] * width
    table = m.get(root + "embed_tokens_per_layer.weight", c.get("vocab_size_per_layer_input", c["vocab_size"]), wide)
    projected = x @ m.get(root + "per_layer_model_projection.weight", wide, c["hidden_size"]).T / math.sqrt(c["hidden_size"])
    projected = plain_rms(m, projected.reshape(len(x), -1, width), root + "per_layer_projection_norm")
    return (projected + table[TOKENS].reshape(len(x), -1, width) * math.sqrt(width)) / math.sqrt(2)


def of_layer(m, x, own, p):
    """What a layer's own embedding adds to the residual."""
    c = m.c
    width, hidden = c["hidden_size_per_layer_input"], c["hidden_size"]
    gated = gelu(x @ m.get(p + "per_layer_input_gate.weight", width, hidden).T) * own
    return plain_rms(m, gated @ m.get(p + "per_layer_projection.weight", hidden, width).T, p + "post_per_layer_input_norm")


def shared_attention(m, h, p, layer, kept, dim, kv, freqs, window, values=True):
    """Norms of q, k and v, the last without weights; scores are not scaled. Layers that share keys and values read those of the last layer of
    their kind that has some, which kept holds. Without v_proj values are keys before their norm."""
    c, heads, kind = m.c, m.c["num_attention_heads"], m.c["layer_types"][layer]
    proj = lambda n, count: (h @ m.get(f"{p}self_attn.{n}_proj.weight", count * dim, c["hidden_size"]).T).reshape(len(h), count, dim)
    q = rotate(plain_rms(m, proj("q", heads), p + "self_attn.q_norm", 0.125, 0.03125), freqs)
    if layer < c["num_hidden_layers"] - c["num_kv_shared_layers"]:
        k = proj("k", kv)
        v = proj("v", kv) if values else k
        kept[kind] = rotate(plain_rms(m, k, p + "self_attn.k_norm"), freqs), rms_norm(v, 1, c["rms_norm_eps"])
    y = attention(q, *kept[kind], window, 1.0)
    return plain_rms(m, y @ m.get(p + "self_attn.o_proj.weight", c["hidden_size"], heads * dim).T, p + "post_attention_layernorm")


def gemma3n():
    """Layers 0, 2, … have a window. Layers 4 to 7 read the keys and values of 2 and 3; of the first layers' gates nine of ten are to be zero."""
    kinds = ["sliding_attention", "full_attention"] * 4
    m = Model({"hidden_activation": "gelu_pytorch_tanh", "rms_norm_eps": 1e-6, "head_dim": 24, "tie_word_embeddings": True, "vocab_size": 56,
               "vocab_size_per_layer_input": 48, "num_hidden_layers": 8, "layer_types": kinds, "sliding_window": 6, "num_kv_shared_layers": 4,
               "hidden_size_per_layer_input": 16, "laurel_rank": 8, "altup_num_inputs": 4, "altup_active_idx": 0, "altup_correct_scale": True,
               "activation_sparsity_pattern": [0.9, 0.9, 0.9] + [0.0] * 5, "intermediate_size": [96] * 8, "final_logit_softcapping": 8.0,
               "rope_theta": 1000000.0, "rope_local_base_freq": 10000.0})
    c, ff, root = m.c, 96, "model.language_model."
    m.folder = {"architectures": ["Gemma3nForConditionalGeneration"], "text_config": c, "vision_config": {"hidden_size": 8}, "audio_config": {}}
    deviations = 1.2815515655446004  # a tenth of a normal distribution is above
    size = lambda x: np.sqrt(np.mean(x * x, -1, keepdims=True))
    x = m.get(root + "embed_tokens.weight", 56, 64, scale=1.0)
    embedding, x = x, x[TOKENS] * 8.0
    own = layer_inputs(m, x, root)
    streams = [x]
    for i in range(3):
        y = x @ m.get(f"{root}altup_projections.{i}.weight", 64, 64).T
        streams.append(y * size(x) / size(y))
    kept = {}
    for layer in range(8):
        p, full = f"{root}layers.{layer}.", kinds[layer] == "full_attention"
        freqs = (1000000.0 if full else 10000.0) ** (-np.arange(0, 24, 2) / 24)

        def modalities(x):
            return np.tanh(plain_rms(m, x, p + "altup.router_norm") / 64 @ m.get(p + "altup.modality_router.weight", 4, 64, scale=8.0).T)

        coefs = (modalities(streams[0]) @ m.get(p + "altup.prediction_coefs.weight", 16, 4).T).reshape(-1, 4, 4)
        predicted = [s + sum(coefs[:, i, j, None] * streams[j] for j in range(4)) for i, s in enumerate(streams)]
        h = plain_rms(m, predicted[0], p + "input_layernorm")
        low = h @ m.get(p + "laurel.linear_left.weight", 8, 64).T @ m.get(p + "laurel.linear_right.weight", 64, 8).T
        laurel = h + plain_rms(m, low, p + "laurel.post_laurel_norm")
        attended = shared_attention(m, h, p, layer, kept, 24, 2, freqs, None if full else 6)
        x = (predicted[0] + attended + laurel) / math.sqrt(2)
        h = plain_rms(m, x, p + "pre_feedforward_layernorm")
        gate, up = (h @ m.get(f"{p}mlp.{n}_proj.weight", ff, 64).T for n in ("gate", "up"))
        if layer < 3:
            gate = np.maximum(gate - gate.mean(-1, keepdims=True) - deviations * gate.std(-1, keepdims=True), 0)
        y = gelu(gate) * up @ m.get(p + "mlp.down_proj.weight", 64, ff).T
        x = x + plain_rms(m, y, p + "post_feedforward_layernorm")
        extents = modalities(x) @ m.get(p + "altup.correction_coefs.weight", 4, 4).T + 1
        streams = [s + extents[:, i, None] * (x - predicted[0]) for i, s in enumerate(predicted)]
        first = of_layer(m, streams[0] * m.get(p + "altup.correct_output_scale", 64, offset=1.0), own[:, layer], p)
        streams = [streams[0]] + [s + first for s in streams[1:]]
    merged = [streams[0]]
    for i, s in enumerate(streams[1:]):
        y = s @ m.get(f"{root}altup_unembed_projections.{i}.weight", 64, 64).T
        merged.append(y * size(streams[0]) / size(y))
    x = plain_rms(m, sum(merged) / 4, root + "norm")
    m.get("model.vision_tower.timm_model.conv_stem.conv.weight", 8, 3)
    m.get("model.embed_audio.embedding.weight", 8, 64)
    for layer in range(4, 8):  # checkpoints hold what nobody reads
        for n in ("k", "v"):
            m.get(f"{root}layers.{layer}.self_attn.{n}_proj.weight", 48, 64)
        m.get(f"{root}layers.{layer}.self_attn.k_norm.weight", 24)
    yield "gemma3n", m, 128, 8.0 * np.tanh(x @ embedding.T / 8.0)


def gemma4():
    """Heads of layers without a window are larger, rotated in part. The small form has layers' own embeddings, shared keys and values and wider
    layers where they are shared; the large one no v_proj in layers without a window."""
    base = {"hidden_activation": "gelu_pytorch_tanh", "rms_norm_eps": 1e-6, "head_dim": 16, "global_head_dim": 32, "tie_word_embeddings": True,
            "sliding_window": 6, "final_logit_softcapping": 8.0, "enable_moe_block": False, "rope_parameters": {
                "full_attention": {"rope_type": "proportional", "rope_theta": 1000000.0, "partial_rotary_factor": 0.25},
                "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}}
    kinds = ["sliding_attention", "sliding_attention", "full_attention"] * 2
    for name, config in [
            ("gemma4-small", {"num_kv_shared_layers": 3, "use_double_wide_mlp": True, "hidden_size_per_layer_input": 16, "attention_k_eq_v": False}),
            ("gemma4-large", {"num_kv_shared_layers": 0, "hidden_size_per_layer_input": 0, "attention_k_eq_v": True, "num_global_key_value_heads": 1})]:
        m = Model({**base, "num_hidden_layers": 6, "layer_types": kinds, **config})
        c, root = m.c, "model.language_model."
        m.folder = {"architectures": ["Gemma4ForConditionalGeneration" if name == "gemma4-small" else "Gemma4UnifiedForConditionalGeneration"],
                    "text_config": c, "vision_config": {"hidden_size": 8}}
        embedding = m.get(root + "embed_tokens.weight", 48, 64, scale=1.0)
        x = embedding[TOKENS] * 8.0
        own = layer_inputs(m, x, root) if c["hidden_size_per_layer_input"] else None
        kept = {}
        for layer in range(6):
            p, full, shared = f"{root}layers.{layer}.", layer % 3 == 2, layer >= 6 - c["num_kv_shared_layers"]
            dim, kv = (32, c.get("num_global_key_value_heads", 2)) if full else (16, 2)
            freqs = 10000.0 ** (-np.arange(0, 16, 2) / 16)
            if full:
                freqs = np.where(np.arange(16) < 4, 1000000.0 ** (-np.arange(0, 32, 2) / 32), 0)
            h = plain_rms(m, x, p + "input_layernorm")
            x = x + shared_attention(m, h, p, layer, kept, dim, kv, freqs, None if full else 6, not (full and c["attention_k_eq_v"]))
            h, ff = plain_rms(m, x, p + "pre_feedforward_layernorm"), 96 * (2 if shared and c.get("use_double_wide_mlp") else 1)
            gate, up = (h @ m.get(f"{p}mlp.{n}_proj.weight", ff, 64).T for n in ("gate", "up"))
            x = x + plain_rms(m, gelu(gate) * up @ m.get(p + "mlp.down_proj.weight", 64, ff).T, p + "post_feedforward_layernorm")
            if own is not None:
                x = x + of_layer(m, x, own[:, layer], p)
            x = x * m.get(p + "layer_scalar", 1, offset=0.75)
        x = plain_rms(m, x, root + "norm")
        m.get("model.vision_tower.patch_embedder.input_proj.weight", 8, 12)
        yield name, m, 128, 8.0 * np.tanh(x @ embedding.T / 8.0)
        yield gemma4_assistant(name, c, embedding * 8.0, x, kept)


def gemma4_assistant(name, of, embedding, hidden, kept):
    """The draft model of a Gemma 4 of that configuration, which has read all tokens but the last: its hidden states after the last norm, and the
    keys and values of the last layers that have some, by kind. Logits are of three tokens that are drafted, each after the likeliest."""
    last, kinds = len(TOKENS) - 1, ["sliding_attention"] * 2 + ["full_attention"]
    m = Model({**{k: v for k, v in of.items() if k not in ("final_logit_softcapping", "num_kv_shared_layers", "use_double_wide_mlp", "hidden_size_per_layer_input")},
               "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "layer_types": kinds})
    m.folder = {"architectures": ["Gemma4AssistantForCausalLM" if name == "gemma4-small" else "Gemma4UnifiedAssistantForCausalLM"], "backbone_hidden_size": 64,
                "use_ordered_embeddings": name == "gemma4-small", "num_centroids": 4, "centroid_intermediate_top_k": 2, "tie_word_embeddings": True, "text_config": m.c}
    if name == "gemma4-small":
        m.get("masked_embedding.centroids.weight", 4, 32)
        m.tensors["masked_embedding.token_ordering"] = {"shape": [48], "dtype": "I64", "values": list(range(48))}
    else:
        m.c["num_kv_shared_layers"] = 3
    h, token, logits = hidden[last - 1], TOKENS[last], []
    table = m.get("model.embed_tokens.weight", 48, 32, scale=1.0)
    for _ in range(3):
        x = np.concatenate([embedding[token], h])[None] @ m.get("pre_projection.weight", 32, 128).T
        for layer, kind in enumerate(kinds):
            p, full = f"model.layers.{layer}.", kind == "full_attention"
            dim, first = (32, 0) if full else (16, last + 1 - 6)
            freqs = 10000.0 ** (-np.arange(0, 16, 2) / 16)
            if full:
                freqs = np.where(np.arange(16) < 4, 1000000.0 ** (-np.arange(0, 32, 2) / 32), 0)
            q = (plain_rms(m, x, p + "input_layernorm") @ m.get(p + "self_attn.q_proj.weight", 4 * dim, 32).T).reshape(1, 4, dim)
            q = plain_rms(m, q, p + "self_attn.q_norm", 0.125, 0.03125)
            q = rotate(np.repeat(q, last + 1, 0), freqs)[last]  # to the position of the last token
            k, v = (np.repeat(part[first:last], 4 // part.shape[1], 1) for part in kept[kind])
            weights = softmax(np.einsum("hd,nhd->hn", q, k))
            y = np.einsum("hn,nhd->hd", weights, v).reshape(1, -1) @ m.get(p + "self_attn.o_proj.weight", 32, 4 * dim).T
            x = x + plain_rms(m, y, p + "post_attention_layernorm")
            f = plain_rms(m, x, p + "pre_feedforward_layernorm")
            gate, up = (f @ m.get(f"{p}mlp.{n}_proj.weight", 48, 32).T for n in ("gate", "up"))
            x = x + plain_rms(m, gelu(gate) * up @ m.get(p + "mlp.down_proj.weight", 32, 48).T, p + "post_feedforward_layernorm")
            x = x * m.get(p + "layer_scalar", 1, offset=0.75)
        x = plain_rms(m, x, "model.norm")
        logits.append((x @ table.T)[0])
        h, token = (x @ m.get("post_projection.weight", 64, 32).T)[0], int(np.argmax(logits[-1]))
    return "drafts/" + name, m, 128, np.array(logits)


def heads():
    """A Llama, and draft heads for it: two of EAGLE-3, of SpecForge's and of speculators' form, which have read all of its tokens but the last, with
    the logits of three tokens that they draft, each after the likeliest; and one of DFlash, with the logits of a block after the last token."""
    m = Model({"architectures": ["LlamaForCausalLM"], "hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "num_hidden_layers": 5})
    freqs, n = frequencies(m, 16), len(TOKENS) - 1
    table, x, inputs = m.get("model.embed_tokens.weight", 48, 64, scale=1.0), None, []
    x = table[TOKENS]
    for layer in range(5):
        inputs.append(x[:n])
        p = f"model.layers.{layer}."
        x = x + head_attention(m, plain_rms(m, x, p + "input_layernorm"), p, freqs)
        x = x + swiglu(m, plain_rms(m, x, p + "post_attention_layernorm"), p + "mlp.")
    inputs.append(x[:n])
    head = m.get("lm_head.weight", 48, 64)
    yield "drafts/heads-target", m, 128, plain_rms(m, x, "model.norm") @ head.T
    for name, config, layers, own in (
            ("eagle3", {"architectures": ["LlamaForCausalLMEagle3"], "eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 3, 5]}}, [1, 3, 5], False),
            ("eagle3-speculator", {"architectures": ["Eagle3Speculator"], "norm_before_residual": True, "norm_before_fc": True}, [2, 3, 4], True)):
        yield eagle3(name, config, layers, inputs, table, own)
    yield dflash(inputs, table, head)


def head_attention(m, h, p, freqs, kept=None, seen=None, at=None):
    """Attention of h [n, any], whose keys and values come after kept ones, which it adds to; seen [n, all] says who sees whom, in place of those before.
    at: the first position."""
    w, heads, kv, dim = h.shape[-1], m.c["num_attention_heads"], m.c["num_key_value_heads"], m.head_dim
    kept, at = [] if kept is None else kept, at or 0
    q, k, v = ((h @ m.get(f"{p}self_attn.{name}_proj.weight", c * dim, w).T).reshape(len(h), c, dim) for name, c in (("q", heads), ("k", kv), ("v", kv)))
    turned = lambda t: rotate(np.concatenate([np.zeros((at,) + t.shape[1:]), t]), freqs)[at:]
    kept.append((turned(k), v))
    k, v = (np.repeat(np.concatenate([t[i] for t in kept]), heads // kv, 1) for i in (0, 1))
    s = np.einsum("ihd,jhd->hij", turned(q), k) / math.sqrt(dim)
    seen = np.arange(len(k))[None] <= np.arange(len(k) - len(h), len(k))[:, None] if seen is None else seen
    y = np.einsum("hij,jhd->ihd", softmax(np.where(seen, s, -np.inf)), v).reshape(len(h), -1)
    return y @ m.get(p + "self_attn.o_proj.weight", m.c["hidden_size"], heads * dim).T


def eagle3(name, config, layers, inputs, table, own):
    """Pairs of the token at position i+1 and of the features of position i are at position i."""
    inner = {"hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "num_hidden_layers": 1, "hidden_size": 32 if own else 64, "head_dim": 16}
    m = Model({**inner, "draft_vocab_size": 20, **config})
    if own:  # speculators have the block's keys apart
        m.folder = {"draft_vocab_size": 20, "target_hidden_size": 64, "eagle_aux_hidden_state_layer_ids": layers, **config,
                    "transformer_layer_config": {k: v for k, v in m.c.items() if k not in config and k != "draft_vocab_size"}}
    n, width, p = len(inputs[0]), m.c["hidden_size"], "layers.0." if own else "midlayer."
    ids = [(2 * i + 1) % 48 for i in range(20)]
    m.tensors["d2t"] = {"shape": [20], "dtype": "I64", "values": [id - i for i, id in enumerate(ids)]}
    m.tensors["t2d"] = {"shape": [48], "dtype": "I64", "values": [int(i in ids) for i in range(48)]}
    features = np.concatenate([inputs[l] for l in layers], -1)
    if own:
        features, table = plain_rms(m, features, "input_norm"), m.get("embed_tokens.weight", 48, width, scale=1.0)
    g, token, kept, logits = features @ m.get("fc.weight", width, 192).T, TOKENS[n], [], []
    head = m.get("lm_head.weight", 20, width)
    tokens, at = TOKENS[1:n + 1], 0
    for _ in range(3):
        h = plain_rms(m, g, p + "hidden_norm")
        x = h if own else g
        both = np.concatenate([plain_rms(m, table[tokens], p + "input_layernorm"), h], -1)
        x = x + head_attention(m, both, p, frequencies(m, 16), kept, at=at)
        x = x + swiglu(m, plain_rms(m, x, p + "post_attention_layernorm"), p + "mlp.")
        logits.append((plain_rms(m, x, "norm") @ head.T)[-1])
        at += len(tokens)
        g, tokens = x[-1:], [ids[int(np.argmax(logits[-1]))]]
    return "drafts/" + name, m, 128, np.array(logits)


def dflash(inputs, table, head):
    """Of the head's two layers the first has a window."""
    m = Model({"architectures": ["DFlashDraftModel"], "hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "num_hidden_layers": 2, "head_dim": 16,
               "block_size": 4, "dflash_config": {"mask_token_id": 47, "target_layer_ids": [0, 2, 4]}, "use_sliding_window": True, "sliding_window": 6,
               "layer_types": ["sliding_attention", "full_attention"]})
    n, freqs, dim = len(inputs[0]), frequencies(m, 16), 16
    g = plain_rms(m, np.concatenate([inputs[l] for l in (1, 3, 5)], -1) @ m.get("fc.weight", 64, 192).T, "hidden_norm")
    x = table[[TOKENS[n], 47, 47, 47]]
    for layer in range(2):
        p = f"layers.{layer}."
        h = plain_rms(m, x, p + "input_layernorm")
        of = lambda t, name, c: (t @ m.get(f"{p}self_attn.{name}_proj.weight", c * dim, 64).T).reshape(len(t), c, dim)
        q, k, v = of(h, "q", 4), of(np.concatenate([g, h]), "k", 2), of(np.concatenate([g, h]), "v", 2)
        q, k = plain_rms(m, q, p + "self_attn.q_norm"), plain_rms(m, k, p + "self_attn.k_norm")
        q = rotate(np.concatenate([np.zeros((n, 4, dim)), q]), freqs)[n:]
        k, v = np.repeat(rotate(k, freqs), 2, 1), np.repeat(v, 2, 1)
        s = np.einsum("ihd,jhd->hij", q, k) / math.sqrt(dim)
        if layer == 0:
            s = np.where(np.arange(n + 4)[None] > np.arange(n, n + 4)[:, None] - 6, s, -np.inf)
        x = x + np.einsum("hij,jhd->ihd", softmax(s), v).reshape(4, -1) @ m.get(p + "self_attn.o_proj.weight", 64, 64).T
        x = x + swiglu(m, plain_rms(m, x, p + "post_attention_layernorm"), p + "mlp.")
    return "drafts/dflash", m, 128, plain_rms(m, x, "norm") @ head.T


def bert():
    """Hidden states in place of logits: every token sees all others, and all are of type 0."""
    m = Model({"architectures": ["BertModel"], "hidden_act": "gelu", "layer_norm_eps": 1e-12, "type_vocab_size": 2, "position_embedding_type": "absolute"})
    m.c["num_key_value_heads"] = None
    x = m.get("embeddings.word_embeddings.weight", 48, 64)[TOKENS] + m.get("embeddings.position_embeddings.weight", 128, 64)[:len(TOKENS)]
    x = layer_norm_of(m, x + m.get("embeddings.token_type_embeddings.weight", 2, 64)[0], "embeddings.LayerNorm", 1e-12)
    yield "bert", m, 128, encoder_layers(m, x, "", 1e-12)


def reranker_of_bert():
    """A cross-encoder: the first token's state goes through the pooler, tanh and the classifier. Tokens of the second text have type 1."""
    m = Model({"architectures": ["BertForSequenceClassification"], "hidden_act": "gelu", "layer_norm_eps": 1e-12, "type_vocab_size": 2,
               "id2label": {"0": "LABEL_0"}})
    m.c["num_key_value_heads"] = None
    x = m.get("bert.embeddings.word_embeddings.weight", 48, 64)[TOKENS] + m.get("bert.embeddings.position_embeddings.weight", 128, 64)[:len(TOKENS)]
    m.types = [int(i >= len(TOKENS) // 3) for i in range(len(TOKENS))]
    x = layer_norm_of(m, x + m.get("bert.embeddings.token_type_embeddings.weight", 2, 64)[m.types], "bert.embeddings.LayerNorm", 1e-12)
    x = encoder_layers(m, x, "bert.", 1e-12)
    m.result = linear(m, np.tanh(linear(m, x[0], "bert.pooler.dense", 64)), "classifier", 1)
    yield "bert-reranker", m, 128, x


def encoder_layers(m, x, root, eps):
    """BERT's layers."""
    for layer in range(3):
        p = f"{root}encoder.layer.{layer}."
        q, k, v = (heads_of(linear(m, x, f"{p}attention.self.{n}", 64, scale=0.15), 16) for n in ("query", "key", "value"))
        y = linear(m, attention(q, k, v, later=True), p + "attention.output.dense", 64)
        x = layer_norm_of(m, x + y, p + "attention.output.LayerNorm", eps)
        y = linear(m, gelu_erf(linear(m, x, p + "intermediate.dense", 96)), p + "output.dense", 64)
        x = layer_norm_of(m, x + y, p + "output.LayerNorm", eps)
    return x


def roberta():
    """Positions begin behind the padding token's; a head of two products makes a reranker, of which the folder says two labels."""
    for name, architecture, kind in (("roberta", "RobertaModel", "roberta"), ("xlm-roberta-reranker", "XLMRobertaForSequenceClassification", "xlm-roberta")):
        m = Model({"architectures": [architecture], "model_type": kind, "hidden_act": "gelu", "layer_norm_eps": 1e-5, "type_vocab_size": 1,
                   "pad_token_id": 1, "max_position_embeddings": 130})
        m.c["num_key_value_heads"] = None
        root = "" if name == "roberta" else "roberta."
        x = m.get(root + "embeddings.word_embeddings.weight", 48, 64)[TOKENS]
        x = x + m.get(root + "embeddings.position_embeddings.weight", 130, 64)[2:][:len(TOKENS)]
        x = layer_norm_of(m, x + m.get(root + "embeddings.token_type_embeddings.weight", 1, 64)[0], root + "embeddings.LayerNorm", 1e-5)
        x = encoder_layers(m, x, root, 1e-5)
        if root:
            m.result = linear(m, np.tanh(linear(m, x[0], "classifier.dense", 64)), "classifier.out_proj", 2)
        else:
            m.files["1_Pooling/config.json"] = {"word_embedding_dimension": 64, "pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
            m.result = x[0]
        yield name, m, 128, x


def distilbert():
    m = Model({"architectures": ["DistilBertModel"], "model_type": "distilbert", "activation": "gelu", "dim": 64, "hidden_dim": 96, "n_layers": 3,
               "n_heads": 4, "sinusoidal_pos_embds": False})
    for other in ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads"):
        del m.c[other]
    x = m.get("embeddings.word_embeddings.weight", 48, 64)[TOKENS] + m.get("embeddings.position_embeddings.weight", 128, 64)[:len(TOKENS)]
    x = layer_norm_of(m, x, "embeddings.LayerNorm", 1e-12)
    for layer in range(3):
        p = f"transformer.layer.{layer}."
        q, k, v = (heads_of(linear(m, x, f"{p}attention.{n}_lin", 64, scale=0.15), 16) for n in "qkv")
        x = layer_norm_of(m, x + linear(m, attention(q, k, v, later=True), p + "attention.out_lin", 64), p + "sa_layer_norm", 1e-12)
        y = linear(m, gelu_erf(linear(m, x, p + "ffn.lin1", 96)), p + "ffn.lin2", 64)
        x = layer_norm_of(m, x + y, p + "output_layer_norm", 1e-12)
    yield "distilbert", m, 128, x


def nomic_bert():
    m = Model({"architectures": ["NomicBertModel"], "activation_function": "swiglu", "layer_norm_epsilon": 1e-12, "n_embd": 64, "n_layer": 3, "n_head": 4,
               "n_inner": 96, "n_positions": 128, "max_trained_positions": 2048, "rotary_emb_base": 1000, "rotary_emb_fraction": 1.0,
               "rotary_emb_interleaved": False, "qkv_proj_bias": False, "mlp_fc1_bias": False, "mlp_fc2_bias": False, "prenorm": False,
               "type_vocab_size": 2})
    for other in ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "max_position_embeddings"):
        del m.c[other]
    freqs = 1000.0 ** (-np.arange(0, 16, 2) / 16)
    x = m.get("embeddings.word_embeddings.weight", 48, 64)[TOKENS] + m.get("embeddings.token_type_embeddings.weight", 2, 64)[0]
    x = layer_norm_of(m, x, "emb_ln", 1e-12)
    for layer in range(3):
        p = f"encoder.layers.{layer}."
        q, k, v = (heads_of(t, 16) for t in np.split(linear(m, x, p + "attn.Wqkv", 192, bias=False, scale=0.15), 3, -1))
        y = attention(rotate(q, freqs), rotate(k, freqs), v, later=True)
        x = layer_norm_of(m, x + linear(m, y, p + "attn.out_proj", 64, bias=False), p + "norm1", 1e-12)
        y = linear(m, x, p + "mlp.fc11", 96, bias=False) * silu(linear(m, x, p + "mlp.fc12", 96, bias=False))
        x = layer_norm_of(m, x + linear(m, y, p + "mlp.fc2", 64, bias=False), p + "norm2", 1e-12)
    m.files["modules.json"] = [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
                               {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]
    m.files["1_Pooling/config.json"] = {"word_embedding_dimension": 64, "pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}
    m.result = x.mean(0)
    yield "nomic-bert", m, 128, x


def nomic_bert_moe():
    """Version 2: every second layer has experts without gates, whose weights are shares of all experts'."""
    m = Model({"architectures": ["NomicBertModel"], "activation_function": "gelu", "layer_norm_epsilon": 1e-5, "n_embd": 64, "n_layer": 4, "n_head": 4,
               "n_inner": 96, "n_positions": 128, "max_trained_positions": 2048, "rotary_emb_base": 10000, "rotary_emb_fraction": 1.0,
               "rotary_emb_interleaved": False, "qkv_proj_bias": True, "mlp_fc1_bias": True, "mlp_fc2_bias": True, "prenorm": False,
               "type_vocab_size": 1, "moe_every_n_layers": 2, "num_experts": 8, "moe_top_k": 2, "moe_normalize_expert_weights": False})
    for other in ("intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "max_position_embeddings"):
        del m.c[other]
    freqs = 10000.0 ** (-np.arange(0, 16, 2) / 16)
    x = m.get("embeddings.word_embeddings.weight", 48, 64)[TOKENS] + m.get("embeddings.token_type_embeddings.weight", 1, 64)[0]
    x = layer_norm_of(m, x, "emb_ln", 1e-5)
    for layer in range(4):
        p = f"encoder.layers.{layer}."
        q, k, v = (heads_of(t, 16) for t in np.split(linear(m, x, p + "attn.Wqkv", 192, scale=0.15), 3, -1))
        y = attention(rotate(q, freqs), rotate(k, freqs), v, later=True)
        x = layer_norm_of(m, x + linear(m, y, p + "attn.out_proj", 64), p + "norm1", 1e-5)
        if layer % 2:
            probabilities = softmax(x @ m.get(p + "mlp.router.layer.weight", 8, 64, scale=0.5).T)
            weights, y = chosen(np.log(probabilities), probabilities, 2), np.zeros_like(x)
            into, out = (m.get(p + "mlp.experts.mlp." + w, 8 * 96, 64).reshape(8, 96, 64) for w in ("w1", "w2"))
            for e in range(8):
                y += weights[:, e:e + 1] * (gelu_erf(x @ into[e].T) @ out[e])
        else:
            y = linear(m, gelu_erf(linear(m, x, p + "mlp.fc1", 96)), p + "mlp.fc2", 64)
        x = layer_norm_of(m, x + y, p + "norm2", 1e-5)
    m.folder = {k: v for k, v in m.c.items() if k != "hidden_size"}
    m.files["1_Pooling/config.json"] = {"word_embedding_dimension": 64, "pooling_mode_mean_tokens": True}
    m.result = x.mean(0)
    yield "nomic-bert-moe", m, 128, x


def jina_bert():
    """Version 2: scores fall with the distance, to either side; gates first in one tensor. Version 3: rotated heads, adapters beside."""
    m = Model({"architectures": ["JinaBertForMaskedLM"], "hidden_act": "gelu", "layer_norm_eps": 1e-12, "type_vocab_size": 2, "position_embedding_type": "alibi",
               "feed_forward_type": "geglu", "hidden_size": 96, "num_attention_heads": 6})
    m.c["num_key_value_heads"] = None
    x = m.get("bert.embeddings.word_embeddings.weight", 48, 96)[TOKENS] + m.get("bert.embeddings.token_type_embeddings.weight", 2, 96)[0]
    x = layer_norm_of(m, x, "bert.embeddings.LayerNorm", 1e-12)
    for layer in range(3):
        p = f"bert.encoder.layer.{layer}."
        q, k, v = (heads_of(linear(m, x, f"{p}attention.self.{n}", 96, scale=0.15), 16) for n in ("query", "key", "value"))
        y = linear(m, attention(q, k, v, slopes=alibi(6), later=True), p + "attention.output.dense", 96)
        x = layer_norm_of(m, x + y, p + "attention.output.LayerNorm", 1e-12)
        gate, up = np.split(linear(m, x, p + "mlp.gated_layers", 192, bias=False), 2, -1)
        x = layer_norm_of(m, x + linear(m, gelu_erf(gate) * up, p + "mlp.wo", 96), p + "mlp.layernorm", 1e-12)
    m.get("cls.predictions.decoder.weight", 48, 96)
    yield "jina-bert-v2", m, 128, x
    del m.tensors["cls.predictions.decoder.weight"]
    m.c["architectures"] = ["JinaBertForSequenceClassification"]
    m.result = linear(m, np.tanh(linear(m, x[0], "bert.pooler.dense", 96)), "classifier", 3)
    yield "jina-bert-v2-reranker", m, 128, x

    m = Model({"architectures": ["XLMRobertaModel"], "hidden_act": "gelu", "layer_norm_eps": 1e-5, "type_vocab_size": 1, "position_embedding_type": "rotary",
               "rotary_emb_base": 20000.0, "pad_token_id": 1, "max_position_embeddings": 130, "lora_adaptations": ["one", "two"]})
    m.c["num_key_value_heads"] = None
    base = ".parametrizations.weight.original"
    plain = lambda x, name, out, **more: x @ m.get(name + base, out, x.shape[-1], **{"scale": 0.25, **more}).T + m.get(name + ".bias", out)
    freqs = 20000.0 ** (-np.arange(0, 16, 2) / 16)
    x = m.get("roberta.embeddings.word_embeddings" + base, 48, 64)[TOKENS] + m.get("roberta.embeddings.token_type_embeddings" + base, 1, 64)[0]
    m.get("roberta.embeddings.word_embeddings.parametrizations.weight.0.lora_A", 2, 48, 4)
    x = layer_norm_of(m, x, "roberta.emb_ln", 1e-5)
    for layer in range(3):
        p = f"roberta.encoder.layers.{layer}."
        q, k, v = (heads_of(t, 16) for t in np.split(plain(x, p + "mixer.Wqkv", 192, scale=0.15), 3, -1))
        m.get(p + "mixer.Wqkv.parametrizations.weight.0.lora_B", 2, 192, 4)
        y = plain(attention(rotate(q, freqs), rotate(k, freqs), v, later=True), p + "mixer.out_proj", 64)
        x = layer_norm_of(m, x + y, p + "norm1", 1e-5)
        x = layer_norm_of(m, x + plain(gelu_erf(plain(x, p + "mlp.fc1", 96)), p + "mlp.fc2", 64), p + "norm2", 1e-5)
    yield "jina-bert-v3", m, 128, x


def modern_bert():
    """Layers 0, 3, … see everything, the others a window around each token; the first has no norm before attention. As a reranker, whose head reads
    the mean of all states or the first."""
    for name, config in (("modern-bert", {"architectures": ["ModernBertModel"]}),
                         ("modern-bert-reranker", {"architectures": ["ModernBertForSequenceClassification"], "classifier_pooling": "mean"}),
                         ("modern-bert-first", {"architectures": ["ModernBertForSequenceClassification"], "classifier_pooling": "cls"})):
        m = Model({"hidden_activation": "gelu", "norm_eps": 1e-5, "num_hidden_layers": 5, "global_attn_every_n_layers": 3, "local_attention": 8,
                   "global_rope_theta": 160000.0, "local_rope_theta": 10000.0, **config})
        m.c["num_key_value_heads"] = None
        root = "" if name == "modern-bert" else "model."
        norm = lambda x, n: layer_norm(x, m.get(n + ".weight", 64, offset=1.0), 0, 1e-5)
        x = norm(m.get(root + "embeddings.tok_embeddings.weight", 48, 64)[TOKENS], root + "embeddings.norm")
        for layer in range(5):
            p, full = f"{root}layers.{layer}.", layer % 3 == 0
            freqs = (160000.0 if full else 10000.0) ** (-np.arange(0, 16, 2) / 16)
            h = norm(x, p + "attn_norm") if layer else x
            q, k, v = (heads_of(t, 16) for t in np.split(linear(m, h, p + "attn.Wqkv", 192, bias=False, scale=0.15), 3, -1))
            y = attention(rotate(q, freqs), rotate(k, freqs), v, window=None if full else 8, later=True)
            x = x + linear(m, y, p + "attn.Wo", 64, bias=False)
            gate, up = np.split(linear(m, norm(x, p + "mlp_norm"), p + "mlp.Wi", 192, bias=False), 2, -1)
            x = x + linear(m, gelu_erf(gate) * up, p + "mlp.Wo", 64, bias=False)
        x = norm(x, root + "final_norm")
        if root:
            state = x.mean(0) if config["classifier_pooling"] == "mean" else x[0]
            m.result = linear(m, norm(gelu_erf(linear(m, state, "head.dense", 64, bias=False)), "head.norm"), "classifier", 1)
        yield name, m, 128, x


def eurobert():
    m = Model({"architectures": ["EuroBertModel"], "hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_theta": 250000.0})
    yield "eurobert", m, 128, run(m, rms, frequencies(m, 16), swiglu, states=True, queries=0.1, root="")


def llama_embed():
    m = Model({"architectures": ["LlamaBidirectionalModel"], "hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_theta": 500000.0})
    m.files["1_Pooling/config.json"] = {"word_embedding_dimension": 64, "pooling_mode_mean_tokens": True}
    x = run(m, rms, frequencies(m, 16), swiglu, states=True, queries=0.1, root="")
    m.result = x.mean(0)
    yield "llama-embed", m, 128, x


def gemma_embedding():
    """Gemma 3 in which tokens see later ones, windows lie around them, and two products follow the mean."""
    m = Model({**GEMMA, "architectures": ["Gemma3TextModel"], "num_hidden_layers": 7, "sliding_window": 8, "query_pre_attn_scalar": 24, "rope_theta": 1000000.0,
               "rope_local_base_freq": 10000.0, "_sliding_window_pattern": 6, "use_bidirectional_attention": True})
    full, every = lambda layer: layer == 5, np.arange(0, 24, 2) / 24
    freqs = lambda layer: (1000000.0 if full(layer) else 10000.0) ** -every
    x = run(m, rms1p, freqs, geglu, window=lambda layer: None if full(layer) else 8, embedding=8.0, heads=head_norms1p, root="", states=True, **FOUR)
    m.files["modules.json"] = [{"idx": i, "name": str(i), "path": path, "type": "sentence_transformers.models." + kind} for i, (path, kind) in enumerate(
        [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Dense", "Dense"), ("3_Dense", "Dense"), ("4_Normalize", "Normalize")])]
    m.files["1_Pooling/config.json"] = {"word_embedding_dimension": 64, "pooling_mode_mean_tokens": True}
    for folder, a, b in (("2_Dense", 64, 96), ("3_Dense", 96, 64)):
        m.files[folder + "/config.json"] = {"in_features": a, "out_features": b, "bias": False, "activation_function": "torch.nn.modules.linear.Identity"}
    m.result = linear(m, linear(m, x.mean(0), "2_Dense/linear", 96, bias=False), "3_Dense/linear", 64, bias=False)
    yield "gemma-embedding", m, 128, x


def qwen3():
    """A folder of embeddings has neither prefix nor head; one of a classifier ends in one number, which a sigmoid follows."""
    base = {"hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "tie_word_embeddings": True}
    m = Model({**base, "architectures": ["Qwen3ForCausalLM"]})
    logits = run(m, rms, frequencies(m, 16), swiglu, heads=head_norms, queries=0.1, root="")
    m.files["modules.json"] = [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
                               {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]
    m.files["1_Pooling/config.json"] = {"word_embedding_dimension": 64, "pooling_mode": "lasttoken"}
    yield "qwen3-embedding", m, 128, logits


def llama():
    """InternLM 3 has biases of queries, keys and values; folders of embeddings have neither prefix nor head, or the prefix."""
    m = Model({"architectures": ["InternLM3ForCausalLM"], "hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_theta": 50000000.0, "head_dim": 24, "qkv_bias": True})
    yield "internlm3", m, 128, run(m, rms, frequencies(m, 24), swiglu, biased=True, queries=0.1)
    for name, architecture, biased in (("llama-embedding", "MistralModel", False), ("qwen2-embedding", "Qwen2Model", True)):
        m = Model({"architectures": [architecture], "hidden_act": "silu", "rms_norm_eps": 1e-5, "tie_word_embeddings": True, "sliding_window": None})
        logits = run(m, rms, frequencies(m, 16), swiglu, queries=0.1, biased=biased, root="")
        m.files["modules.json"] = [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
                                   {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]
        m.files["1_Pooling/config.json"] = {"word_embedding_dimension": 64, "pooling_mode_lasttoken": True}
        yield name, m, 128, logits


def reranker_of_qwen3():
    """The last token's logits of "yes" and "no" as shares of 1 (the model card of Qwen3-Reranker), with the head tied and its own; and a folder of
    a classifier, whose one number goes through a sigmoid."""
    tokens = [*"abcdefghijklmnopqrstuvwxyz0123456789.,!?:<>-", "\u0120", "ye", "yes", "no"]
    base = {"hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "_name_or_path": "Qwen/Qwen3-Reranker-0.6B"}
    for name, architecture, tied in (("qwen3-reranker", "Qwen3ForCausalLM", True), ("qwen3-reranker-untied", "Qwen3ForCausalLM", False),
                                     ("qwen3-classifier", "Qwen3ForSequenceClassification", True)):
        m = Model({**base, "architectures": [architecture], "tie_word_embeddings": tied})
        x = run(m, rms, frequencies(m, 16), swiglu, heads=head_norms, queries=0.1, states="causal")
        embedding = m.get("model.embed_tokens.weight", 48, 64, scale=Block().table)
        if name == "qwen3-classifier":
            yes = 1 / (1 + np.exp(-(x[-1] @ m.get("score.weight", 1, 64)[0])))
            m.result = np.array([yes, 1 - yes])
        else:
            head = embedding if tied else m.get("lm_head.weight", 48, 64)
            m.result = softmax(x[-1] @ head[[tokens.index("yes"), tokens.index("no")]].T)
        m.files["tokenizer.json"] = {
            "added_tokens": [], "normalizer": None, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
            "decoder": {"type": "ByteLevel"}, "post_processor": None,
            "model": {"type": "BPE", "vocab": {t: i for i, t in enumerate(tokens)}, "merges": ["y e", "ye s", "n o"]}}
        m.files["tokenizer_config.json"] = {"tokenizer_class": "Qwen2Tokenizer"}
        yield name, m, 128, x @ embedding.T


def gap(logits, used):
    """How far the last expert that is used lies above the first that is not: rounding must not decide."""
    order = np.sort(logits, -1)[:, ::-1]
    least = (order[:, used - 1] - order[:, used]).min() if used < logits.shape[-1] else 1.0
    assert least > 0.001, least


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def chosen(rank, weights, used):
    """[n, experts] weights of the experts ranked highest, zero of the others."""
    gap(rank, used)
    out = np.zeros_like(weights)
    for t, order in enumerate(np.argsort(-rank, -1)[:, :used]):
        out[t, order] = weights[t, order]
    return out


def normalised(weights):
    return weights / weights.sum(-1, keepdims=True)


def expert_mlp(m, h, width, gate, up, down):
    hidden = m.c["hidden_size"]
    g, u = (h @ m.get(n, width, hidden).T for n in (gate, up))
    return silu(g) * u @ m.get(down, hidden, width).T


def experts(m, h, weights, names, width):
    """names: of gate, up and down, with %d for the expert."""
    y = np.zeros_like(h)
    for e in range(weights.shape[-1]):
        y += weights[:, e:e + 1] * expert_mlp(m, h, width, *(n % e for n in names))
    return y


def router(m, h, name, n):
    return h @ m.get(name, n, m.c["hidden_size"], scale=0.25).T


def mixtral():
    m = Model({"architectures": ["MixtralForCausalLM"], "hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_theta": 1e6, "num_local_experts": 8,
               "num_experts_per_tok": 2})

    def mlp(m, h, p):
        p = p.replace("mlp.", "block_sparse_moe.")
        probabilities = softmax(router(m, h, p + "gate.weight", 8))
        return experts(m, h, normalised(chosen(np.log(probabilities), probabilities, 2)), [f"{p}experts.%d.{w}.weight" for w in ("w1", "w3", "w2")], 96)
    yield "mixtral", m, 128, run(m, rms, frequencies(m, 16), mlp, queries=0.1)


PROJECTIONS = ("gate_proj", "up_proj", "down_proj")


def softmax_experts(m, h, p, norm):
    n, used = m.c["num_experts"], m.c["num_experts_per_tok"]
    probabilities = softmax(router(m, h, p + "gate.weight", n))
    weights = chosen(np.log(probabilities), probabilities, used)
    width = m.c.get("moe_intermediate_size", m.c["intermediate_size"])
    return experts(m, h, normalised(weights) if norm else weights, [f"{p}experts.%d.{w}.weight" for w in PROJECTIONS], width)


def qwen3moe():
    """Layer 1 has no experts."""
    m = Model({"architectures": ["Qwen3MoeForCausalLM"], "hidden_act": "silu", "rms_norm_eps": 1e-6, "head_dim": 24, "num_experts": 16,
               "num_experts_per_tok": 4, "moe_intermediate_size": 32, "norm_topk_prob": True, "decoder_sparse_step": 1, "mlp_only_layers": [1]})
    mlp = lambda m, h, p: swiglu(m, h, p) if ".1." in p else softmax_experts(m, h, p, True)
    yield "qwen3moe", m, 128, run(m, rms, frequencies(m, 24), mlp, heads=head_norms)


def qwen3vlmoe():
    """Folders have matrices of inputs by outputs, those of gates and ups in one. Text has the same position in every section."""
    m = Model({"rms_norm_eps": 1e-6, "rope_theta": 5000000.0, "head_dim": 24, "num_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 32,
               "norm_topk_prob": True, "hidden_act": "silu"})
    m.folder = {"architectures": ["Qwen3VLMoeForConditionalGeneration"], "tie_word_embeddings": False, "text_config": {
        **m.c, "rope_scaling": {"rope_type": "default", "mrope_interleaved": True, "mrope_section": [6, 3, 3]}},
        "vision_config": {"hidden_size": 8, "deepstack_visual_indexes": [0, 1]}}

    def mlp(m, h, p):
        probabilities = softmax(router(m, h, p + "gate.weight", 8))
        weights = normalised(chosen(np.log(probabilities), probabilities, 3))
        into, out, y = m.get(p + "experts.gate_up_proj", 8, 64, 64), m.get(p + "experts.down_proj", 8, 32, 64), np.zeros_like(h)
        for e in range(8):
            gate, up = np.split(h @ into[e], 2, -1)
            y += weights[:, e:e + 1] * (silu(gate) * up @ out[e])
        return y
    logits = run(m, rms, frequencies(m, 24), mlp, heads=head_norms, root="model.language_model.")
    m.get("model.visual.patch_embed.proj.weight", 8, 12)
    yield "qwen3vlmoe", m, 128, logits


def qwen2moe():
    m = Model({"architectures": ["Qwen2MoeForCausalLM"], "hidden_act": "silu", "rms_norm_eps": 1e-6, "num_experts": 12, "num_experts_per_tok": 3,
               "moe_intermediate_size": 32, "shared_expert_intermediate_size": 48, "norm_topk_prob": False})

    def mlp(m, h, p):
        shared = expert_mlp(m, h, 48, *(f"{p}shared_expert.{w}.weight" for w in PROJECTIONS))
        return softmax_experts(m, h, p, False) + shared / (1 + np.exp(-h @ m.get(p + "shared_expert_gate.weight", 1, 64).T))
    yield "qwen2moe", m, 128, run(m, rms, frequencies(m, 16), mlp, biased=True, queries=0.1)


def olmoe():
    m = Model({"architectures": ["OlmoeForCausalLM"], "hidden_act": "silu", "rms_norm_eps": 1e-5, "num_experts": 8, "num_experts_per_tok": 3,
               "intermediate_size": 32, "norm_topk_prob": False})
    yield "olmoe", m, 128, run(m, rms, frequencies(m, 16), lambda m, h, p: softmax_experts(m, h, p, False), wide=wide_norms)


def granitemoe():
    """The softmax is over the chosen, which is that of all, normalised."""
    factors = {"embedding_multiplier": 6.0, "attention_multiplier": 0.125, "residual_multiplier": 0.35, "logits_scaling": 4.0}
    for name, kind, shared in (("granitemoe", "GraniteMoeForCausalLM", 0), ("granitemoe-shared", "GraniteMoeSharedForCausalLM", 40)):
        m = Model({"architectures": [kind], "hidden_act": "silu", "rms_norm_eps": 1e-5, "tie_word_embeddings": True, "intermediate_size": 32,
                   "num_local_experts": 8, "num_experts_per_tok": 3, **factors, **({"shared_intermediate_size": shared} if shared else {})})

        def mlp(m, h, p, shared=shared):
            q = p.replace("mlp.", "block_sparse_moe.")
            logits = router(m, h, q + "router.layer.weight", 8)
            weights = chosen(logits, np.exp(logits), 3)
            into, out = m.get(q + "input_linear.weight", 8, 64, 64), m.get(q + "output_linear.weight", 8, 64, 32)
            y = np.zeros_like(h)
            for e in range(8):
                g, u = np.split(h @ into[e].T, 2, -1)
                y += normalised(weights)[:, e:e + 1] * (silu(g) * u @ out[e].T)
            if shared:
                g, u = np.split(h @ m.get(p.replace("mlp.", "shared_mlp.") + "input_linear.weight", 2 * shared, 64).T, 2, -1)
                y += silu(g) * u @ m.get(p.replace("mlp.", "shared_mlp.") + "output_linear.weight", 64, shared).T
            return y
        yield name, m, 128, run(m, rms, frequencies(m, 16), mlp, embedding=6.0, scale=0.125, residual=0.35, logits=4.0, queries=0.1)


FIRST = (arcee, nemotron, phi3, granite, olmo2, smollm3, stablelm, gemma, gemma2, gemma3, exaone4, seed_oss, glm4, olmo3,
         gemma3_pictures, command_r, cohere2, mistral3, starcoder2, qwen_vl, gemma3n, gemma4)
SECOND = (gpt2, gptneox, internlm2, phi2, chatglm, jais2, mpt, bloom, baichuan, plm, minicpm, ernie_dense, hunyuan, exaone, minicpm3, deepseek2, bert,
          reranker_of_bert, roberta, distilbert, nomic_bert, nomic_bert_moe, jina_bert, modern_bert, eurobert, llama_embed, gemma_embedding, qwen3, llama, reranker_of_qwen3, heads)

def minimax_m2():
    """A bias counts for the choice only; half of a head is rotated."""
    m = Model({"architectures": ["MiniMaxM2ForCausalLM"], "hidden_act": "silu", "rms_norm_eps": 1e-6, "head_dim": 32, "rotary_dim": 16,
               "intermediate_size": 32, "num_local_experts": 8, "num_experts_per_tok": 3, "scoring_func": "sigmoid"})

    def mlp(m, h, p):
        p = p.replace("mlp.", "block_sparse_moe.")
        scores = 1 / (1 + np.exp(-router(m, h, p + "gate.weight", 8)))
        weights = normalised(chosen(scores + m.get(p + "e_score_correction_bias", 8, scale=0.375), scores, 3))
        return experts(m, h, weights, [f"{p}experts.%d.{w}.weight" for w in ("w1", "w3", "w2")], 32)
    yield "minimax-m2", m, 128, run(m, rms, frequencies(m, 16), mlp, wide=wide_norms)


def ernie():
    """Layer 0 has no experts; neighbours are rotated."""
    m = Model({"architectures": ["Ernie4_5_MoeForCausalLM"], "hidden_act": "silu", "rms_norm_eps": 1e-5, "moe_num_experts": 8, "moe_k": 3,
               "moe_intermediate_size": 32, "moe_num_shared_experts": 2, "moe_layer_start_index": 1, "moe_layer_end_index": 2,
               "moe_layer_interval": 1, "num_key_value_heads": 4})

    def mlp(m, h, p):
        if ".0." in p:
            return swiglu(m, h, p)
        probabilities = softmax(router(m, h, p + "gate.weight", 8))
        bias = m.get(p + "moe_statics.e_score_correction_bias", 1, 8, scale=0.125)
        weights = normalised(chosen(probabilities + bias, probabilities, 3))
        return experts(m, h, weights, [f"{p}experts.%d.{w}.weight" for w in PROJECTIONS], 32) + expert_mlp(
            m, h, 64, *(f"{p}shared_experts.{w}.weight" for w in PROJECTIONS))
    yield "ernie4_5-moe", m, 128, run(m, rms, frequencies(m, 16), mlp, queries=0.1, turn=rotate_neighbours)


def glm4_moe():
    """Layer 0 has no experts; half of a head is rotated. The larger model norms queries and keys and has a layer behind the last, of which no logit depends."""
    for name, norms in (("glm4moe", True), ("glm4moe-air", False)):
        m = Model({"architectures": ["Glm4MoeForCausalLM"], "hidden_act": "silu", "rms_norm_eps": 1e-5, "head_dim": 24, "partial_rotary_factor": 0.5,
                   "attention_bias": True, "use_qk_norm": norms, "moe_intermediate_size": 32, "n_routed_experts": 8, "n_shared_experts": 2 if norms else 1,
                   "num_experts_per_tok": 3, "first_k_dense_replace": 1, "norm_topk_prob": True, "routed_scaling_factor": 2.5 if norms else 1.0,
                   "n_group": 1, "topk_group": 1, "num_nextn_predict_layers": int(norms)})

        def mlp(m, h, p):
            if ".0." in p:
                return swiglu(m, h, p)
            scores = 1 / (1 + np.exp(-router(m, h, p + "gate.weight", 8)))
            weights = normalised(chosen(scores + m.get(p + "gate.e_score_correction_bias", 8, scale=0.375), scores, 3))
            shared = expert_mlp(m, h, 32 * m.c["n_shared_experts"], *(f"{p}shared_experts.{w}.weight" for w in PROJECTIONS))
            return shared + experts(m, h, m.c["routed_scaling_factor"] * weights, [f"{p}experts.%d.{w}.weight" for w in PROJECTIONS], 32)
        logits = run(m, rms, frequencies(m, 12), mlp, biased=True, heads=head_norms if norms else None, queries=0.25 if norms else 0.1)
        if norms:
            for part, shape in (("eh_proj", (64, 128)), ("enorm", (64,)), ("embed_tokens", (48, 64)), ("self_attn.q_proj", (96, 64))):
                m.get(f"model.layers.3.{part}.weight", *shape)
        yield name, m, 128, logits


def smallthinker():
    """Routers read the layer's input before the norm. With windows every fourth layer, the first included, has none and is not rotated."""
    for name, window in (("smallthinker", 6), ("smallthinker-plain", None)):
        n = 6 if window else 2
        layout = [int(window is not None and layer % 4 != 0) for layer in range(n)]
        m = Model({"architectures": ["SmallThinkerForCausalLM"], "rms_norm_eps": 1e-6, "head_dim": 24, "rope_theta": 1500000.0, "num_hidden_layers": n,
                   "moe_num_primary_experts": 8, "moe_num_active_primary_experts": 3, "moe_ffn_hidden_size": 32, "moe_enable_early_router": True,
                   "moe_primary_router_apply_softmax": window is None, "rope_layout": layout if window else [1] * n, "sliding_window_layout": layout,
                   "sliding_window_size": 6, "moe_layer_layout": [1] * n, "tie_word_embeddings": window is None})
        del m.c["intermediate_size"]
        read = {}

        def norm(m, x, name, read=read):
            if name.endswith("input_layernorm"):
                read["x"] = x
            return rms(m, x, name)

        def mlp(m, h, p, read=read):
            p = p.replace("mlp.", "block_sparse_moe.")
            logits = read["x"] @ m.get(p + "primary_router.weight", 8, 64, scale=0.0625).T
            scores = softmax(logits) if m.c["moe_primary_router_apply_softmax"] else 1 / (1 + np.exp(-logits))
            weights, y = normalised(chosen(logits, scores, 3)), np.zeros_like(h)
            for e in range(8):
                gate, up, down = (m.get(f"{p}experts.{e}.{w}.weight", *shape) for w, shape in (("gate", (32, 64)), ("up", (32, 64)), ("down", (64, 32))))
                y += weights[:, e:e + 1] * (np.maximum(h @ gate.T, 0) * (h @ up.T) @ down.T)
            return y
        windowed = lambda layer, window=window: window is not None and layer % 4 != 0
        freqs = frequencies(m, 24)
        yield name, m, 128, run(m, norm, lambda layer: freqs if windowed(layer) or window is None else None, mlp, queries=0.1,
                                window=lambda layer: window if windowed(layer) else None)


def mxfp4(m, name, n, rows, cols):
    """[n, rows, cols] numbers of 4 bits (E2M1) times a power of two for each 32: a byte holds two, the first in its lower half."""
    codes = m.bytes(name + "_blocks", n, rows, cols // 32, 16, scale=128.0, offset=128.0)
    exponents = m.bytes(name + "_scales", n, rows, cols // 32, scale=1.0, offset=122.0)
    codes = np.stack([codes & 15, codes >> 4], -1).reshape(n, rows, cols // 32, 32)
    sign, exponent, mantissa = codes >> 3, codes >> 1 & 3, codes & 1
    numbers = np.where(exponent == 0, mantissa / 2, (1 + mantissa / 2) * 2.0 ** (exponent - 1))
    return (np.where(sign, -numbers, numbers) * 2.0 ** (exponents[..., None] - 127)).reshape(n, rows, cols)


def gptoss():
    """Folders hold experts in MXFP4, or as matrices of inputs by outputs; the gate's outputs and the up's are there by turns."""
    for name, packed in (("gptoss", False), ("gptoss-mxfp4", True)):
        m = Model({"architectures": ["GptOssForCausalLM"], "hidden_act": "silu", "rms_norm_eps": 1e-5, "head_dim": 16, "num_local_experts": 8,
                   "num_experts_per_tok": 3, "attention_bias": True, "swiglu_limit": 7.0, "sliding_window": 6, "rope_theta": 150000.0,
                   "num_hidden_layers": 4, "layer_types": ["sliding_attention", "full_attention"] * 2,
                   "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "beta_fast": 3.0, "beta_slow": 1.0, "truncate": False,
                                    "original_max_position_embeddings": 32},
                   **({"quantization_config": {"quant_method": "mxfp4"}} if packed else {})})

        def mlp(m, h, p, packed=packed):
            logits = h @ m.get(p + "router.weight", 8, 64, scale=0.5).T + m.get(p + "router.bias", 8)
            weights = normalised(chosen(logits, np.exp(logits), 3))
            both, down = p + "experts.gate_up_proj", p + "experts.down_proj"
            if packed:
                into, out = mxfp4(m, both, 8, 192, 64).transpose(0, 2, 1), mxfp4(m, down, 8, 64, 96).transpose(0, 2, 1)
            else:
                into, out = m.get(both, 8, 64, 192), m.get(down, 8, 96, 64)
            biases, last = m.get(both + "_bias", 8, 192), m.get(down + "_bias", 8, 64)
            y = np.zeros_like(h)
            for e in range(8):
                z = h @ into[e] + biases[e]
                g, u = np.minimum(z[:, ::2], 7.0), np.clip(z[:, 1::2], -7.0, 7.0)
                y += weights[:, e:e + 1] * (g / (1 + np.exp(-1.702 * g)) * (u + 1) @ out[e] + last[e])
            return y
        slowed = yarn(frequencies(m, 16), 16, 150000.0, 4.0, 32, fast=3.0, whole=False)
        yield name, m, 128, run(m, rms, slowed, mlp, biased="all", queries=0.02, magnitude=1 + 0.1 * math.log(4),
                                window=lambda layer: 6 if layer % 2 == 0 else None, sinks=lambda m, p: m.get(p + "self_attn.sinks", 4, scale=2.0))


def dbrx():
    """Matrices of all experts are one; of the last kind its columns become rows. Queries, keys and values are clamped."""
    m = Model({"architectures": ["DbrxForCausalLM"], "d_model": 64, "n_heads": 4, "n_layers": 2, "max_seq_len": 128,
               "attn_config": {"clip_qkv": 0.5, "kv_n_heads": 2, "rope_theta": 500000},
               "ffn_config": {"ffn_hidden_size": 32, "moe_num_experts": 8, "moe_top_k": 3, "moe_normalize_expert_weights": 1}})
    for other in ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "max_position_embeddings"):
        del m.c[other]
    norm = lambda x, n: layer_norm(x, m.get(n + ".weight", 64, offset=1.0), 0, 1e-5)
    freqs = 500000.0 ** (-np.arange(0, 16, 2) / 16)
    x = m.get("transformer.wte.weight", 48, 64)[TOKENS]
    for layer in range(2):
        p = f"transformer.blocks.{layer}.norm_attn_norm."
        qkv = np.clip(linear(m, norm(x, p + "norm_1"), p + "attn.Wqkv", 128, bias=False, scale=0.1), -0.5, 0.5)
        q, k, v = (heads_of(t, 16) for t in np.split(qkv, [64, 96], -1))
        x = x + linear(m, attention(rotate(q, freqs), rotate(k, freqs), v), p + "attn.out_proj", 64, bias=False)
        h = norm(x, p + "norm_2")
        p = f"transformer.blocks.{layer}.ffn."
        logits = h @ m.get(p + "router.layer.weight", 8, 64).T
        weights = normalised(chosen(logits, softmax(logits), 3))
        gate, up, down = (m.get(p + "experts.mlp." + w, 8 * 32, 64).reshape(8, 32, 64) for w in ("w1", "v1", "w2"))
        for e in range(8):
            x = x + weights[:, e:e + 1] * (silu(h @ gate[e].T) * (h @ up[e].T) @ down[e])
    yield "dbrx", m, 128, norm(x, "transformer.norm_f") @ m.get("lm_head.weight", 48, 64).T


def deepseek():
    """Layer 0 has no experts; weights are not divided by their sum."""
    m = Model({"architectures": ["DeepseekForCausalLM"], "hidden_act": "silu", "rms_norm_eps": 1e-6, "moe_intermediate_size": 32, "n_routed_experts": 8,
               "n_shared_experts": 2, "num_experts_per_tok": 3, "first_k_dense_replace": 1, "moe_layer_freq": 1, "norm_topk_prob": False,
               "scoring_func": "softmax"})

    def mlp(m, h, p):
        if ".0." in p:
            return swiglu(m, h, p)
        probabilities = softmax(router(m, h, p + "gate.weight", 8))
        shared = expert_mlp(m, h, 64, *(f"{p}shared_experts.{w}.weight" for w in PROJECTIONS))
        return shared + experts(m, h, chosen(np.log(probabilities), probabilities, 3), [f"{p}experts.%d.{w}.weight" for w in PROJECTIONS], 32)
    yield "deepseek", m, 128, run(m, rms, frequencies(m, 16), mlp, queries=0.1)


def of_deepseeks_form():
    """GLM 4.7 Flash, whose configuration does not tell its scores and whose layer behind the last predicts further tokens, and Kimi K2, whose YaRN
    passes from one kind of frequency to the other within a pair."""
    base = {"hidden_act": "silu", "num_key_value_heads": 4, "kv_lora_rank": 32, "q_lora_rank": 40, "moe_intermediate_size": 32, "n_routed_experts": 8,
            "n_shared_experts": 2, "num_experts_per_tok": 3, "first_k_dense_replace": 1, "norm_topk_prob": True, "n_group": 1, "topk_group": 1,
            "topk_method": "noaux_tc", "attention_bias": False}
    m = Model({**base, "architectures": ["Glm4MoeLiteForCausalLM"], "rms_norm_eps": 1e-5, "qk_nope_head_dim": 24, "qk_rope_head_dim": 8, "v_head_dim": 48,
               "rope_theta": 1000000, "routed_scaling_factor": 1.8, "num_nextn_predict_layers": 1, "partial_rotary_factor": 1.0, "rope_scaling": None})
    h = latent_decoder(m, frequencies(m, 8), rotate_neighbours, mlp=lambda m, h, p: deepseek_experts(m, h, p, "sigmoid"))
    for part, shape in (("eh_proj", (64, 128)), ("enorm", (64,)), ("mlp.gate", (8, 64))):
        m.get(f"model.layers.3.{part}.weight", *shape)
    yield "glm4moe-lite", m, 128, h @ m.get("lm_head.weight", 48, 64).T
    m = Model({**base, "architectures": ["DeepseekV3ForCausalLM"], "model_type": "kimi_k2", "rms_norm_eps": 1e-6, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8,
               "v_head_dim": 32, "rope_theta": 50000.0, "routed_scaling_factor": 2.827, "scoring_func": "sigmoid", "num_nextn_predict_layers": 0,
               "rope_scaling": {"type": "yarn", "factor": 32.0, "original_max_position_embeddings": 16, "beta_fast": 1.0, "beta_slow": 1.0,
                                "mscale": 1.0, "mscale_all_dim": 1.0}})
    freqs = yarn(frequencies(m, 8), 8, 50000.0, 32.0, 16, fast=1.0)
    h = latent_decoder(m, freqs, rotate_neighbours, (0.1 * math.log(32) + 1) ** 2 / math.sqrt(24), mlp=deepseek_experts)
    yield "kimi-k2", m, 128, h @ m.get("lm_head.weight", 48, 64).T


def turbosparse():
    """Mixtral with ReLU of gates and of ups. Folders hold a predictor beside each expert, of a rank of the layer, which reads what the expert reads; neurons
    that it takes for zero are zero, in the second of these."""
    def mlp(m, h, p, masked):
        rank = 16 + 8 * int(p.split(".")[2])
        p = p.replace("mlp.", "block_sparse_moe.")
        probabilities = softmax(router(m, h, p + "gate.weight", 8))
        weights, y = normalised(chosen(np.log(probabilities), probabilities, 2)), np.zeros_like(h)
        for e in range(8):
            q = f"{p}experts.{e}."
            gate, up, down = (m.get(f"{q}{w}.weight", *shape) for w, shape in (("w1", (96, 64)), ("w3", (96, 64)), ("w2", (64, 96))))
            fc1, fc2 = m.get(q + "predictor.fc1.weight", rank, 64), m.get(q + "predictor.fc2.weight", 96, rank)
            mask = np.maximum(h @ fc1.T, 0) @ fc2.T > 0 if masked else 1
            y += weights[:, e:e + 1] * ((np.maximum(h @ gate.T, 0) * np.maximum(h @ up.T, 0) * mask) @ down.T)
        return y

    for name, masked in (("turbosparse-mixtral", False), ("turbosparse-mixtral-predicted", True)):
        m = Model({"architectures": ["TurboSparseMixtralForCausalLM"], "model_type": "turbosparsemixtral", "hidden_act": "relu", "rms_norm_eps": 1e-5,
                   "rope_theta": 1e6, "num_local_experts": 8, "num_experts_per_tok": 2})
        m.predicted = masked
        yield name, m, 128, run(m, rms, frequencies(m, 16), lambda m, h, p: mlp(m, h, p, masked), queries=0.1)


def llama4():
    """Every second layer has experts, of which a token uses one, or more than one in other configurations; what it reads is multiplied by the weight.
    Every fourth layer sees all positions and is not rotated; the others see their own part of them only. Folders have matrices of inputs by outputs."""
    for name, config, every in (("llama4", {}, 2), ("llama4-unnormed", {"num_local_experts": 128, "use_qk_norm": False}, 1)):
        m = Model({"architectures": ["Llama4ForCausalLM"], "hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "num_hidden_layers": 5,
                   "intermediate_size": 32, "intermediate_size_mlp": 128, "num_local_experts": 8, "num_experts_per_tok": 1, "interleave_moe_layer_step": every,
                   "attention_chunk_size": 7, "no_rope_layers": [1, 1, 1, 0, 1], "use_qk_norm": True, "attn_temperature_tuning": True, "floor_scale": 8192,
                   "attn_scale": 0.1, **config})
        full, freqs, n = lambda layer: layer == 3, frequencies(m, 16), m.c["num_local_experts"]

        def mlp(m, h, p, every=every, n=n):
            layer, p = int(p.split(".")[2]), p.replace("mlp.", "feed_forward.")
            if (layer + 1) % every:
                gate, up = (h @ m.get(f"{p}{w}_proj.weight", 128, 64).T for w in ("gate", "up"))
                return silu(gate) * up @ m.get(p + "down_proj.weight", 64, 128).T
            logits = h @ m.get(p + "router.weight", n, 64, scale=0.5).T
            weights = chosen(logits, 1 / (1 + np.exp(-logits)), 1)
            into, out = m.get(p + "experts.gate_up_proj", n, 64, 64), m.get(p + "experts.down_proj", n, 32, 64)
            y = expert_mlp(m, h, 32, *(f"{p}shared_expert.{w}.weight" for w in PROJECTIONS))
            for e in range(n):
                g, u = np.split(weights[:, e:e + 1] * h @ into[e], 2, -1)
                y += silu(g) * u @ out[e]
            return y

        def unit(m, q, k, p):
            if not m.c["use_qk_norm"] or full(int(p.split(".")[2])):
                return q, k
            return tuple(rms_norm(t, 1.0, 1e-5) for t in (q, k))
        yield name, m, 128, run(m, rms, lambda layer: None if full(layer) else freqs, mlp, heads=unit, queries=0.1, turn=rotate_neighbours,
                                window=lambda layer: None if full(layer) else -7)


def mamba(m, h, p, groups=2, by=1, normed=True):
    """Mamba-2 by the recurrence of its definition, a position after another. by are factors of what the first product gives."""
    heads, dim, size, hidden = 4, 16, 24, 64
    inner, channels = heads * dim, heads * dim + 2 * groups * size
    z, mixed, step = np.split(h @ m.get(p + "in_proj.weight", inner + channels + heads, hidden).T * by, [inner, inner + channels], -1)
    taps, bias = m.get(p + "conv1d.weight", channels, 1, 4, scale=0.5)[:, 0], m.get(p + "conv1d.bias", channels)
    padded = np.concatenate([np.zeros((3, channels)), mixed])
    mixed = silu(sum(padded[k:k + len(h)] * taps[:, k] for k in range(4)) + bias)
    x, b, c = np.split(mixed, [inner, inner + groups * size], -1)
    step = np.log1p(np.exp(step + m.get(p + "dt_bias", heads, scale=1.0, offset=-1.0)))
    a, d = -np.exp(m.get(p + "A_log", heads, scale=1.0)), m.get(p + "D", heads, offset=1.0)
    state, y = np.zeros((heads, dim, size)), np.zeros((len(h), heads, dim))
    for t in range(len(h)):
        for head in range(heads):
            g = head * groups // heads
            u = x[t].reshape(heads, dim)[head]
            state[head] = np.exp(step[t, head] * a[head]) * state[head] + step[t, head] * np.outer(u, b[t].reshape(groups, size)[g])
            y[t, head] = state[head] @ c[t].reshape(groups, size)[g] + d[head] * u
    y = y.reshape(len(h), inner) * silu(z)
    if normed:
        y = rms_norm(y.reshape(len(h), groups, -1), np.ones(inner // groups), 1e-5).reshape(len(h), inner) * m.get(p + "norm.weight", inner, offset=1.0)
    return y @ m.get(p + "out_proj.weight", hidden, inner).T


def mamba2():
    """Mamba-2 alone. The first configuration says what older ones leave out."""
    for name, config, groups in (("mamba2", {"num_heads": 4, "head_dim": 16, "state_size": 24, "expand": 1, "n_groups": 2, "conv_kernel": 4, "use_bias": False,
                                             "use_conv_bias": True, "rms_norm": True, "time_step_limit": [0.0, None], "hidden_act": "silu"}, 2),
                                 ("mamba2-tied", {"head_dim": 16, "state_size": 24, "expand": 1, "tie_word_embeddings": True}, 1)):
        m = Model({"architectures": ["Mamba2ForCausalLM"], "layer_norm_epsilon": 1e-5, **config})
        for other in ("intermediate_size", "num_attention_heads", "num_key_value_heads", "max_position_embeddings"):
            del m.c[other]
        table = m.get("backbone.embeddings.weight", 48, 64, scale=1.0)
        x = table[TOKENS]
        for l in range(3):
            p = f"backbone.layers.{l}."
            x = x + mamba(m, rms_norm(x, m.get(p + "norm.weight", 64, offset=1.0), 1e-5), p + "mixer.", groups=groups)
        head = table if m.c["tie_word_embeddings"] else m.get("lm_head.weight", 48, 64)
        yield name, m, 1 << 20, rms_norm(x, m.get("backbone.norm_f.weight", 64, offset=1.0), 1e-5) @ head.T


def falcon_h1():
    """Attention and Mamba-2 read the same norm. Nearly all products have factors."""
    base = {"architectures": ["FalconH1ForCausalLM"], "hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_theta": 1e11, "head_dim": 24, "mamba_n_heads": 4, "mamba_d_head": 16,
            "mamba_d_ssm": 64, "mamba_n_groups": 2, "mamba_d_state": 24, "mamba_d_conv": 4, "mamba_conv_bias": True, "mamba_proj_bias": False, "mamba_expand": 2,
            "mamba_norm_before_gate": False, "attention_bias": False, "mlp_bias": False, "projectors_bias": False}
    factors = {"embedding_multiplier": 5.5, "lm_head_multiplier": 0.4, "key_multiplier": 0.55, "attention_in_multiplier": 0.9, "attention_out_multiplier": 0.7,
               "ssm_in_multiplier": 1.25, "ssm_out_multiplier": 0.35, "mlp_multipliers": [0.88, 0.6], "ssm_multipliers": [0.35, 0.25, 0.7, 0.5, 0.3]}
    for name, config in (("falcon-h1", {"mamba_rms_norm": False, **factors}), ("falcon-h1-normed", {"mamba_rms_norm": True}),
                         ("falcon-h1-tied", {"mamba_rms_norm": False, "tie_word_embeddings": True, **factors})):
        m = Model({**base, **config})
        c = m.c.get
        gate_by, down_by = c("mlp_multipliers", (1, 1))
        by = np.repeat(c("ssm_multipliers", np.ones(5)), [64, 64, 48, 48, 4])
        table = m.get("model.embed_tokens.weight", 48, 64, scale=0.3)
        x = table[TOKENS] * c("embedding_multiplier", 1)
        freqs = frequencies(m, 24)
        for l in range(3):
            p = f"model.layers.{l}."
            h = rms_norm(x, m.get(p + "input_layernorm.weight", 64, offset=1.0), 1e-5)
            state = mamba(m, h * c("ssm_in_multiplier", 1), p + "mamba.", by=by, normed=m.c["mamba_rms_norm"]) * c("ssm_out_multiplier", 1)
            into = h * c("attention_in_multiplier", 1)
            q, k, v = ((into @ m.get(f"{p}self_attn.{n}_proj.weight", w * 24, 64).T).reshape(len(h), -1, 24) for n, w in (("q", 4), ("k", 2), ("v", 2)))
            y = attention(rotate(q, freqs), rotate(k * c("key_multiplier", 1), freqs), v) @ m.get(p + "self_attn.o_proj.weight", 64, 96).T
            x = x + state + y * c("attention_out_multiplier", 1)
            h = rms_norm(x, m.get(p + "pre_ff_layernorm.weight", 64, offset=1.0), 1e-5)
            p += "feed_forward."
            gate, up = (h @ m.get(f"{p}{w}_proj.weight", 96, 64).T for w in ("gate", "up"))
            x = x + silu(gate * gate_by) * up @ m.get(p + "down_proj.weight", 64, 96).T * down_by
        head = table if m.c["tie_word_embeddings"] else m.get("lm_head.weight", 48, 64)
        yield name, m, 128, rms_norm(x, m.get("model.final_layernorm.weight", 64, offset=1.0), 1e-5) @ head.T * c("lm_head_multiplier", 1)


def lfm2():
    """Most layers convolve what gates multiplied, and multiply what comes of it. Two thirds of the configured width, as a multiple of 32; with experts the
    width itself. A bias counts for the choice only."""
    base = {"architectures": ["Lfm2ForCausalLM"], "norm_eps": 1e-5, "rope_theta": 1000000.0, "num_hidden_layers": 4, "conv_L_cache": 3, "conv_bias": False,
               "layer_types": ["conv", "conv", "full_attention", "conv"], "block_ff_dim": 128, "block_auto_adjust_ff_dim": True,
               "block_ffn_dim_multiplier": 1.0, "block_multiple_of": 32, "tie_word_embeddings": True}
    mixed = {"architectures": ["Lfm2MoeForCausalLM"], "intermediate_size": 96, "block_ff_dim": None, "num_experts": 8, "num_experts_per_tok": 3,
             "moe_intermediate_size": 32, "num_dense_layers": 1, "use_expert_bias": True, "norm_topk_prob": True, "routed_scaling_factor": 1.5}
    for name, config in (("lfm2", {}), ("lfm2moe", mixed)):
        yield name, *lfm2_of({**base, **config})


def lfm2_of(config):
    m = Model(config)
    freqs, norm = 1000000.0 ** (-np.arange(0, 16, 2) / 16), lambda x, name: rms_norm(x, m.get(name + ".weight", x.shape[-1], offset=1.0), 1e-5)
    table = m.get("model.embed_tokens.weight", 48, 64, scale=1.0)
    x = table[TOKENS]
    for layer, kind in enumerate(m.c["layer_types"]):
        p = f"model.layers.{layer}."
        h = norm(x, p + "operator_norm")
        if kind == "conv":
            before, behind, y = np.split(linear(m, h, p + "conv.in_proj", 192, bias=False), 3, -1)
            taps, past = m.get(p + "conv.conv.weight", 64, 1, 3, scale=1.0)[:, 0], np.concatenate([np.zeros((2, 64)), before * y])
            y = behind * sum(taps[:, k] * past[k:k + len(x)] for k in range(3))
            x = x + linear(m, y, p + "conv.out_proj", 64, bias=False)
        else:
            q, k, v = (heads_of(linear(m, h, f"{p}self_attn.{n}_proj", w, bias=False), 16) for n, w in (("q", 64), ("k", 32), ("v", 32)))
            q, k = norm(q, p + "self_attn.q_layernorm"), norm(k, p + "self_attn.k_layernorm")
            x = x + linear(m, attention(rotate(q, freqs), rotate(k, freqs), v), p + "self_attn.out_proj", 64, bias=False)
        h = norm(x, p + "ffn_norm")
        p += "feed_forward."
        if layer >= m.c.get("num_dense_layers", 4):
            scores = 1 / (1 + np.exp(-router(m, h, p + "gate.weight", 8)))
            weights = 1.5 * normalised(chosen(scores + m.get(p + "expert_bias", 8, scale=0.125), scores, 3))
            x = x + experts(m, h, weights, [f"{p}experts.%d.{w}.weight" for w in ("w1", "w3", "w2")], 32)
            continue
        h = silu(linear(m, h, p + "w1", 96, bias=False)) * linear(m, h, p + "w3", 96, bias=False)
        x = x + linear(m, h, p + "w2", 64, bias=False)
    return m, 128, norm(x, "model.embedding_norm") @ table.T


def granite_hybrid():
    """Mamba-2 or attention without positions, and behind either experts beside a shared one, or that alone."""
    base = {"architectures": ["GraniteMoeHybridForCausalLM"], "hidden_act": "silu", "rms_norm_eps": 1e-5, "tie_word_embeddings": True, "embedding_multiplier": 6.0,
            "attention_multiplier": 0.125, "residual_multiplier": 0.35, "logits_scaling": 4.0, "position_embedding_type": "nope", "mamba_n_heads": 4,
            "mamba_d_head": 16, "mamba_n_groups": 1, "mamba_d_state": 24, "mamba_d_conv": 4, "mamba_expand": 1, "mamba_conv_bias": True, "mamba_proj_bias": False,
            "shared_intermediate_size": 40, "layer_types": ["mamba", "attention", "mamba"]}

    def halves(h, both, out):
        g, u = np.split(h @ both.T, 2, -1)
        return silu(g) * u @ out.T

    for name, config in (("granitehybrid", {"num_local_experts": 0, "num_experts_per_tok": 0}),
                         ("granitehybrid-experts", {"intermediate_size": 32, "num_local_experts": 8, "num_experts_per_tok": 3})):
        m = Model({**base, **config})
        table = m.get("model.embed_tokens.weight", 48, 64, scale=1.0)
        x = table[TOKENS] * 6.0
        norm = lambda x, name: rms_norm(x, m.get(name, 64, offset=1.0), 1e-5)
        for l, kind in enumerate(base["layer_types"]):
            p = f"model.layers.{l}."
            h = norm(x, p + "input_layernorm.weight")
            if kind == "mamba":
                y = mamba(m, h, p + "mamba.", groups=1)
            else:
                q, k, v = ((h @ m.get(f"{p}self_attn.{n}_proj.weight", w * 16, 64, scale=s).T).reshape(len(h), -1, 16) for n, w, s in (("q", 4, 0.1), ("k", 2, 0.25), ("v", 2, 0.25)))
                y = attention(q, k, v, scale=0.125) @ m.get(p + "self_attn.o_proj.weight", 64, 64).T
            x = x + 0.35 * y
            h = norm(x, p + "post_attention_layernorm.weight")
            y = halves(h, m.get(p + "shared_mlp.input_linear.weight", 80, 64), m.get(p + "shared_mlp.output_linear.weight", 64, 40))
            if config["num_local_experts"]:
                logits = router(m, h, p + "block_sparse_moe.router.layer.weight", 8)
                weights = normalised(chosen(logits, np.exp(logits), 3))
                into, out = m.get(p + "block_sparse_moe.input_linear.weight", 8, 64, 64), m.get(p + "block_sparse_moe.output_linear.weight", 8, 64, 32)
                y = y + sum(weights[:, e:e + 1] * halves(h, into[e], out[e]) for e in range(8))
            x = x + 0.35 * y
        yield name, m, 128, norm(x, "model.norm.weight") @ table.T / 4.0


def nemotron_h():
    """Layers that are one part each. Mamba-2 by the recurrence of its definition, a position after another; experts of squared ReLU with a shared one,
    reading and writing latent vectors in the last."""
    base = {"architectures": ["NemotronHForCausalLM"], "mlp_hidden_act": "relu2", "mamba_hidden_act": "silu", "layer_norm_epsilon": 1e-5, "head_dim": 16,
            "num_hidden_layers": 5, "mamba_num_heads": 4, "mamba_head_dim": 16, "n_groups": 2, "ssm_state_size": 24, "conv_kernel": 4, "use_conv_bias": True}

    def attend(m, h, p):
        q, k, v = (h @ m.get(f"{p}{n}_proj.weight", w * 16, 64).T for n, w in (("q", 4), ("k", 2), ("v", 2)))
        q, k, v = (t.reshape(len(h), -1, 16) for t in (q, k, v))
        return attention(q, k, v) @ m.get(p + "o_proj.weight", 64, 64).T

    def dense(m, h, p):
        return relu2(h @ m.get(p + "up_proj.weight", 96, 64).T) @ m.get(p + "down_proj.weight", 64, 96).T

    def mixture(m, h, p):
        narrow = m.c.get("moe_latent_size")
        width = narrow or 64
        scores = 1 / (1 + np.exp(-router(m, h, p + "gate.weight", 8)))
        bias = m.get(p + "gate.e_score_correction_bias", 8, scale=0.6)
        weights = normalised(chosen(scores + bias, scores, 3)) * 2.5
        x, y = h @ m.get(p + "fc1_latent_proj.weight", narrow, 64).T if narrow else h, 0
        for e in range(8):
            up, down = m.get(f"{p}experts.{e}.up_proj.weight", 32, width), m.get(f"{p}experts.{e}.down_proj.weight", width, 32)
            y = y + weights[:, e:e + 1] * (relu2(x @ up.T) @ down.T)
        y = y @ m.get(p + "fc2_latent_proj.weight", 64, narrow).T if narrow else y
        return y + relu2(h @ m.get(p + "shared_experts.up_proj.weight", 48, 64).T) @ m.get(p + "shared_experts.down_proj.weight", 64, 48).T

    parts = {"M": mamba, "*": attend, "-": dense, "E": mixture}
    more = {"n_routed_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 32, "moe_shared_expert_intermediate_size": 48, "n_shared_experts": 1,
            "norm_topk_prob": True, "routed_scaling_factor": 2.5, "n_group": 1, "topk_group": 1}
    for name, config in (("nemotron_h", {"hybrid_override_pattern": "M-*M-", "time_step_limit": [0.0, None]}), ("nemotron_h_moe", {"hybrid_override_pattern": "ME*ME", **more}),
                         ("nemotron_h_moe-latent", {"layers_block_type": ["mamba", "moe", "attention", "moe", "mamba"], "moe_latent_size": 40, **more})):
        m = Model({**base, **config})
        kinds = m.c.get("hybrid_override_pattern") or [{"mamba": "M", "moe": "E", "attention": "*"}[k] for k in m.c["layers_block_type"]]
        x = m.get("backbone.embeddings.weight", 48, 64, scale=1.0)[TOKENS]
        for l, kind in enumerate(kinds):
            p = f"backbone.layers.{l}."
            x = x + parts[kind](m, rms_norm(x, m.get(p + "norm.weight", 64, offset=1.0), 1e-5), p + "mixer.")
        x = rms_norm(x, m.get("backbone.norm_f.weight", 64, offset=1.0), 1e-5)
        yield name, m, 128, x @ m.get("lm_head.weight", 48, 64).T


def delta_nets():
    """Gated delta nets by the recurrence of their definition, with gated attention in every so manyth layer; all norms but those of delta nets store
    their weights less 1. Qwen3-Next has projections in groups of a key head and experts of their own tensors; Qwen3.5 has neither, and its models with
    experts hold them stacked."""
    groups, heads, dim, hidden = 2, 4, 16, 64
    each, keys, inner = heads // groups, groups * dim, heads * dim
    base = {"hidden_act": "silu", "rms_norm_eps": 1e-6, "head_dim": 32, "num_attention_heads": 2, "num_key_value_heads": 1, "num_hidden_layers": 4,
            "linear_conv_kernel_dim": 4, "linear_key_head_dim": dim, "linear_value_head_dim": dim, "linear_num_key_heads": groups,
            "linear_num_value_heads": heads}
    mixture = {"num_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 32, "shared_expert_intermediate_size": 48, "norm_topk_prob": True,
               "decoder_sparse_step": 1, "mlp_only_layers": []}

    def unit(x):
        return x / np.sqrt((x * x).sum(-1, keepdims=True) + 1e-6)

    def net(m, h, p, grouped):
        n = len(h)
        if grouped:
            q, k, v, z = np.split((h @ m.get(p + "in_proj_qkvz.weight", 2 * keys + 2 * inner, hidden).T).reshape(n, groups, -1),
                                  [dim, 2 * dim, (2 + each) * dim], -1)
            mixed = np.concatenate([t.reshape(n, -1) for t in (q, k, v)], -1)
            b, a = np.split((h @ m.get(p + "in_proj_ba.weight", 2 * heads, hidden).T).reshape(n, groups, -1), 2, -1)
            b, a, z = b.reshape(n, heads), a.reshape(n, heads), z.reshape(n, heads, dim)
        else:
            mixed, z = h @ m.get(p + "in_proj_qkv.weight", 2 * keys + inner, hidden).T, (h @ m.get(p + "in_proj_z.weight", inner, hidden).T).reshape(n, heads, dim)
            b, a = (h @ m.get(f"{p}in_proj_{s}.weight", heads, hidden).T for s in "ba")
        taps = m.get(p + "conv1d.weight", 2 * keys + inner, 1, 4, scale=0.5)[:, 0]
        padded = np.concatenate([np.zeros((3, 2 * keys + inner)), mixed])
        mixed = silu(sum(padded[i:i + n] * taps[:, i] for i in range(4)))
        q, k, v = (t.reshape(n, -1, dim) for t in np.split(mixed, [keys, 2 * keys], -1))
        q, k = (np.repeat(unit(t), each, 1) for t in (q, k))
        beta = 1 / (1 + np.exp(-b))
        decay = np.exp(-np.exp(m.get(p + "A_log", heads, scale=1.0)) * np.log1p(np.exp(a + m.get(p + "dt_bias", heads, scale=1.0, offset=-1.0))))
        state, y = np.zeros((heads, dim, dim)), np.zeros((n, heads, dim))  # of a key's elements by those of a value
        for t in range(n):
            state = state * decay[t][:, None, None]
            known = np.einsum("hkv,hk->hv", state, k[t])
            state = state + np.einsum("hk,hv->hkv", k[t], (v[t] - known) * beta[t][:, None])
            y[t] = np.einsum("hkv,hk->hv", state, q[t]) / math.sqrt(dim)
        y = rms_norm(y, m.get(p + "norm.weight", dim, offset=1.0), 1e-6) * silu(z)
        return y.reshape(n, inner) @ m.get(p + "out_proj.weight", hidden, inner).T

    def attend(m, h, p, freqs):
        q, gate = np.split((h @ m.get(p + "q_proj.weight", 2 * 2 * 32, hidden).T).reshape(len(h), 2, 64), 2, -1)
        k, v = ((h @ m.get(f"{p}{s}_proj.weight", 32, hidden).T).reshape(len(h), 1, 32) for s in "kv")
        q, k = (rotate(rms_norm(t, 1 + m.get(f"{p}{s}_norm.weight", 32), 1e-6), freqs) for t, s in ((q, "q"), (k, "k")))
        return (attention(q, k, v) / (1 + np.exp(-gate.reshape(len(h), -1)))) @ m.get(p + "o_proj.weight", hidden, 64).T

    def mix(m, h, p, stacked):
        z = router(m, h, p + "gate.weight", 8)
        weights = normalised(chosen(z, np.exp(z), 3))
        if stacked:
            both, down = m.get(p + "experts.gate_up_proj", 8, 64, hidden), m.get(p + "experts.down_proj", 8, hidden, 32)
            y = sum(weights[:, e:e + 1] * (silu(h @ both[e, :32].T) * (h @ both[e, 32:].T) @ down[e].T) for e in range(8))
        else:
            y = experts(m, h, weights, [f"{p}experts.%d.{w}_proj.weight" for w in ("gate", "up", "down")], 32)
        shared = expert_mlp(m, h, 48, *(f"{p}shared_expert.{w}_proj.weight" for w in ("gate", "up", "down")))
        return y + shared / (1 + np.exp(-h @ m.get(p + "shared_expert_gate.weight", 1, hidden).T))

    for name, config, text in (("qwen3next", {"architectures": ["Qwen3NextForCausalLM"], "partial_rotary_factor": 0.25, "rope_theta": 1e7, **mixture}, None),
                               ("qwen35", {"full_attention_interval": 2, "layer_types": ["linear_attention", "full_attention"] * 2, "attn_output_gate": True},
                                "Qwen3_5ForConditionalGeneration"),
                               ("qwen35moe", {"intermediate_size": 0, **mixture}, "Qwen3_5MoeForConditionalGeneration")):
        m = Model({**base, **config})
        root, every, theta = "model.", m.c.get("full_attention_interval", 4), 1e7
        if text:
            root = "model.language_model."
            m.c["rope_parameters"] = {"rope_type": "default", "rope_theta": theta, "partial_rotary_factor": 0.5, "mrope_section": [4, 2, 2], "mrope_interleaved": True}
            m.folder = {"architectures": [text], "tie_word_embeddings": False, "text_config": m.c, "vision_config": {"hidden_size": 8}}
        rotated = 16 if text else 8
        freqs = theta ** (-np.arange(0, rotated, 2) / rotated)
        norm = lambda x, name: rms_norm(x, 1 + m.get(name, hidden), 1e-6)
        x = m.get(root + "embed_tokens.weight", 48, hidden, scale=1.0)[TOKENS]
        for l in range(4):
            p = f"{root}layers.{l}."
            h = norm(x, p + "input_layernorm.weight")
            x = x + (attend(m, h, p + "self_attn.", freqs) if (l + 1) % every == 0 else net(m, h, p + "linear_attn.", not text))
            h = norm(x, p + "post_attention_layernorm.weight")
            x = x + (mix(m, h, p + "mlp.", bool(text)) if "num_experts" in m.c else swiglu(m, h, p + "mlp."))
        logits = norm(x, root + "norm.weight") @ m.get("lm_head.weight", 48, hidden).T
        m.get("mtp.fc.weight", hidden, 2 * hidden)
        if text:
            m.get("model.visual.patch_embed.proj.weight", 8, 12)
        yield name, m, 128, logits


EXPERTS = (delta_nets, lfm2, mamba2, falcon_h1, granite_hybrid, nemotron_h, mixtral, qwen3moe, qwen3vlmoe, qwen2moe, olmoe, granitemoe, minimax_m2, ernie, gptoss, glm4_moe, smallthinker, dbrx, deepseek, of_deepseeks_form, turbosparse, llama4)


def write(families):
    for family in families:
        for name, m, context, logits in family():
            with open(name + ".json", "w") as f:
                more = {"files": m.files} if m.files else {}
                if m.result is not None:
                    more["result"] = [float(f"{v:.7g}") for v in m.result]
                if m.predicted:
                    more["predicted"] = True
                if m.types:
                    more["types"] = m.types
                json.dump({"how": f"reference.py, numpy {np.__version__}, float64", "config": m.folder, "tensors": m.tensors, "context": context,
                           "tokens": TOKENS, "logits": [[float(f"{v:.7g}") for v in row] for row in logits], **more}, f)
                f.write("\n")


if __name__ == "__main__":
    write(FIRST + SECOND + EXPERTS)
