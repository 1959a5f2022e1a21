"""Writes the reference logits of families with recurrent states, and of a few others, as reference.py does.

    python3 reference_states.py

Sources: mamba: Gu and Dao 2023, and its configurations. falcon_mamba: Zuo et al. 2024. jamba: Lieber et al. 2024, and its configurations.
rwkv7: Peng et al. 2025, and its configurations.
"""
import numpy as np

from reference import TOKENS, Model, attention, chosen, experts, layer_norm, rms_norm, router, silu, swiglu, write


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def selective(m, h, p, inner, size, rank, normed=None, taps=4):
    """Mamba by the recurrence of its definition, a position after another. normed is how a step, B and C are normed."""
    hidden = h.shape[-1]
    x, z = np.split(h @ m.get(p + "in_proj.weight", 2 * inner, hidden).T, 2, -1)
    w, bias = m.get(p + "conv1d.weight", inner, 1, taps, scale=0.5)[:, 0], m.get(p + "conv1d.bias", inner)
    padded = np.concatenate([np.zeros((taps - 1, inner)), x])
    x = silu(sum(padded[k:k + len(h)] * w[:, k] for k in range(taps)) + bias)
    step, b, c = np.split(x @ m.get(p + "x_proj.weight", rank + 2 * size, inner).T, [rank, rank + size], -1)
    if normed:
        step, b, c = normed(step, "dt"), normed(b, "b"), normed(c, "c")
    step = np.log1p(np.exp(step @ m.get(p + "dt_proj.weight", inner, rank, scale=0.5).T + m.get(p + "dt_proj.bias", inner, scale=1.0, offset=-1.0)))
    a, d = -np.exp(m.get(p + "A_log", inner, size, scale=1.0)), m.get(p + "D", inner, offset=1.0)
    state, y = np.zeros((inner, size)), np.zeros_like(x)
    for t in range(len(h)):
        state = np.exp(step[t][:, None] * a) * state + (step[t] * x[t])[:, None] * b[t]
        y[t] = state @ c[t] + d * x[t]
    return (y * silu(z)) @ m.get(p + "out_proj.weight", hidden, inner).T


def mamba():
    """Every layer is a state space. The second configuration is Falcon-Mamba's: steps, B and C have norms without weights."""
    for name, arch, config in (("mamba", "MambaForCausalLM", {"tie_word_embeddings": True, "time_step_rank": "auto", "expand": 2}),
                               ("falcon_mamba", "FalconMambaForCausalLM", {"intermediate_size": 128, "time_step_rank": 6, "mixer_rms_eps": 1e-5})):
        m = Model({"architectures": [arch], "layer_norm_epsilon": 1e-5, "state_size": 16, "conv_kernel": 4, "use_bias": False, "use_conv_bias": True,
                   "hidden_act": "silu", "rescale_prenorm_residual": False})
        for other in ("intermediate_size", "num_attention_heads", "num_key_value_heads", "max_position_embeddings"):
            del m.c[other]
        m.c.update(config)
        rank = m.c["time_step_rank"] if m.c["time_step_rank"] != "auto" else 64 // 16
        normed = (lambda x, _: rms_norm(x, 1.0, 1e-5)) if name == "falcon_mamba" else None
        table = m.get("backbone.embeddings.weight", 48, 64, scale=1.0)
        x = table[TOKENS]
        for l in range(3):
            p = f"backbone.layers.{l}."
            x = x + selective(m, rms_norm(x, m.get(p + "norm.weight", 64, offset=1.0), 1e-5), p + "mixer.", 128, 16, rank, normed)
        head = table if m.c["tie_word_embeddings"] else m.get("lm_head.weight", 48, 64)
        yield name, m, 1 << 20, rms_norm(x, m.get("backbone.norm_f.weight", 64, offset=1.0), 1e-5) @ head.T


def jamba():
    """Mamba, with norms of steps, B and C, or attention without positions, and behind either SwiGLU or experts, whose shares are not divided by their sum."""
    for name, config in (("jamba", {"num_experts": 1, "num_experts_per_tok": 1}), ("jamba-experts", {"num_experts": 4, "num_experts_per_tok": 2})):
        m = Model({"architectures": ["JambaForCausalLM"], "hidden_act": "silu", "rms_norm_eps": 1e-6, "attn_layer_period": 3, "attn_layer_offset": 1, "expert_layer_period": 2,
                   "expert_layer_offset": 1, "mamba_d_conv": 4, "mamba_d_state": 16, "mamba_dt_rank": 4, "mamba_expand": 2, "mamba_conv_bias": True,
                   "mamba_proj_bias": False, "num_hidden_layers": 4, **config})
        norm = lambda x, name: rms_norm(x, m.get(name, x.shape[-1], offset=1.0), 1e-6)
        x = m.get("model.embed_tokens.weight", 48, 64, scale=1.0)[TOKENS]
        for l in range(4):
            p = f"model.layers.{l}."
            h = norm(x, p + "input_layernorm.weight")
            if l % 3 == 1:
                q, k, v = ((h @ m.get(f"{p}self_attn.{n}_proj.weight", w * 16, 64).T).reshape(len(h), -1, 16) for n, w in (("q", 4), ("k", 2), ("v", 2)))
                x = x + attention(q, k, v) @ m.get(p + "self_attn.o_proj.weight", 64, 64).T
            else:
                x = x + selective(m, h, p + "mamba.", 128, 16, 4, lambda x, n: norm(x, f"{p}mamba.{n}_layernorm.weight"))
            h, mlp = norm(x, p + "pre_ff_layernorm.weight"), p + "feed_forward."
            if l % 2 == 1 and config["num_experts"] > 1:
                z = router(m, h, mlp + "router.weight", 4)
                e = np.exp(z - z.max(-1, keepdims=True))
                x = x + experts(m, h, chosen(z, e / e.sum(-1, keepdims=True), 2), [f"{mlp}experts.%d.{w}_proj.weight" for w in ("gate", "up", "down")], 96)
            else:
                x = x + swiglu(m, h, mlp)
        yield name, m, 128, norm(x, "model.final_layernorm.weight") @ m.get("lm_head.weight", 48, 64).T


def before(x):
    """Each position's row becomes that of the position before."""
    return np.concatenate([np.zeros_like(x[:1]), x[:-1]])


def rwkv7():
    """Time mixing by the recurrence of its definition, a position after another, and channel mixing."""
    hidden, head, layers = 64, 32, 3
    m = Model({"architectures": ["RWKV7ForCausalLM"], "head_dim": head, "norm_eps": 1e-5, "norm_first": True, "hidden_act": "sqrelu", "decay_low_rank_dim": 12,
               "a_low_rank_dim": 10, "v_low_rank_dim": 8, "gate_low_rank_dim": 14, "intermediate_size": 160})
    for other in ("num_attention_heads", "num_key_value_heads"):
        del m.c[other]
    norm = lambda x, name: layer_norm(x, m.get(name + ".weight", hidden, offset=1.0), m.get(name + ".bias", hidden), 1e-5)
    x, first = norm(m.get("model.embeddings.weight", 48, hidden, scale=1.0)[TOKENS], "model.layers.0.pre_norm"), None
    for l in range(layers):
        p = f"model.layers.{l}.attn."
        h = norm(x, f"model.layers.{l}.attn_norm")
        mixed = {n: h + (before(h) - h) * m.get(f"{p}x_{n}", 1, 1, hidden, scale=0.5, offset=0.5)[0, 0] for n in "rwkvag"}
        product = lambda x, n: x @ m.get(f"{p}{n}_proj.weight", hidden, hidden).T
        low = lambda n, rank, act, bias=True: (act(mixed[n] @ m.get(f"{p}{n}_lora.lora.0.weight", rank, hidden).T) @ m.get(f"{p}{n}_lora.lora.2.weight", hidden, rank).T
                                               + (m.get(f"{p}{n}_lora.lora.2.bias", hidden) if bias else 0))
        r, k, v = product(mixed["r"], "r"), product(mixed["k"], "k"), product(mixed["v"], "v")
        w = np.exp(-np.exp(-0.5) * sigmoid(low("w", 12, np.tanh)))
        a = sigmoid(low("a", 10, lambda x: x))
        gate = low("g", 14, sigmoid, bias=False)
        if first is None:
            first = v
        else:
            v = v + (first - v) * sigmoid(low("v", 8, lambda x: x))
        unit = (k * m.get(p + "k_k", hidden, offset=1.0)).reshape(len(h), -1, head)
        unit = unit / np.maximum(np.linalg.norm(unit, axis=-1, keepdims=True), 1e-12)
        k = k * (1 + (a - 1) * m.get(p + "k_a", hidden, offset=1.0))
        r, w, k, v, a = (t.reshape(len(h), -1, head) for t in (r, w, k, v, a))
        state, y = np.zeros((hidden // head, head, head)), np.zeros((len(h), hidden // head, head))
        for t in range(len(h)):
            for i in range(hidden // head):
                state[i] = state[i] * w[t, i] - np.outer(state[i] @ unit[t, i], unit[t, i] * a[t, i]) + np.outer(v[t, i], k[t, i])
                y[t, i] = state[i] @ r[t, i]
        own = (r * k * m.get(p + "r_k", hidden // head, head)).sum(-1, keepdims=True) * v
        y = (y - y.mean(-1, keepdims=True)) / np.sqrt(y.var(-1, keepdims=True) + 64e-5)
        y = y.reshape(len(h), -1) * m.get(p + "g_norm.weight", hidden, offset=1.0) + m.get(p + "g_norm.bias", hidden) + own.reshape(len(h), -1)
        x = x + product(y * gate, "o")
        p = f"model.layers.{l}.ffn."
        h = norm(x, f"model.layers.{l}.ffn_norm")
        h = h + (before(h) - h) * m.get(p + "x_k", hidden, scale=0.5, offset=0.5)
        x = x + np.maximum(h @ m.get(p + "key.weight", 160, hidden).T, 0) ** 2 @ m.get(p + "value.weight", hidden, 160).T
    yield "rwkv7", m, 1 << 20, norm(x, "model.norm") @ m.get("lm_head.weight", 48, hidden).T


if __name__ == "__main__":
    write((mamba, jamba, rwkv7))
