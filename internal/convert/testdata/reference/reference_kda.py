"""Reference logits as reference.py writes them, of families with linear attention.

    python3 reference_kda.py

Sources: Kimi Linear (Kimi Team 2025; its configuration), Kimi K3 (its configuration; Kimi Team 2026, Attention Residuals), Ling 3 (its
configuration), MiniMax-01 (MiniMax 2025; Qin et al. 2024, Lightning Attention-2).
"""
import math

import numpy as np

from reference import (Model, PROJECTIONS, TOKENS, attention, chosen, experts, expert_mlp, frequencies, heads_of, latent_attention, linear, normalised, rms,
                       rms_norm, rotate, rotate_neighbours, router, silu, softmax, swiglu, write)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def unit(x, eps):
    return x / np.sqrt((x * x).sum(-1, keepdims=True) + eps)


def still(x, freqs):
    """Heads that know no positions."""
    return x


def delta_attention(m, h, p, heads, dim, eps, decays, gate, out="o_proj"):
    """Kimi delta attention by its recurrence: decays gives the logarithms of the state's decays, [n, heads, dim], one for each element of a key."""
    n, inner = len(h), heads * dim

    def convolved(s):
        x = linear(m, h, f"{p}{s}_proj", inner, bias=False)
        taps = m.get(f"{p}{s}_conv1d.weight", inner, 1, 4, scale=0.5)[:, 0]
        padded = np.concatenate([np.zeros((3, inner)), x])
        return silu(sum(padded[i:i + n] * taps[:, i] for i in range(4))).reshape(n, heads, dim)

    q, k, v = (convolved(s) for s in "qkv")
    q, k = unit(q, eps) / math.sqrt(dim), unit(k, eps)
    beta, decay = sigmoid(linear(m, h, p + "b_proj", heads, bias=False)), np.exp(decays(h))
    state, y = np.zeros((heads, dim, dim)), np.zeros((n, heads, dim))  # of a key's elements by those of a value
    for t in range(n):
        state = state * decay[t][..., None]
        known = np.einsum("hkv,hk->hv", state, k[t])
        state = state + np.einsum("hk,hv->hkv", k[t], (v[t] - known) * beta[t][:, None])
        y[t] = np.einsum("hkv,hk->hv", state, q[t])
    y = rms_norm(y, m.get(p + "o_norm.weight", dim, offset=1.0), eps) * sigmoid(gate(h)).reshape(n, heads, dim)
    return linear(m, y.reshape(n, inner), p + out, m.c["hidden_size"], bias=False)


def sigmoid_experts(m, h, p, used, biases, groups=(1, 1), bias="gate.e_score_correction_bias"):
    """The weights of eight experts; a bias counts for the choice, from those groups whose two best experts have the largest sum."""
    scores = sigmoid(router(m, h, p + "gate.weight", 8))
    rank = scores + m.get(p + bias, 8, scale=biases)
    n, best = groups
    order = np.argsort(-np.sort(rank.reshape(len(h), n, -1), -1)[..., -2:].sum(-1), -1)[:, :best]
    for t in range(len(h)):
        for g in range(n):
            if g not in order[t]:
                rank[t, 8 // n * g:8 // n * (g + 1)] = -np.inf
    return normalised(chosen(rank, scores, used))


def kimi_linear():
    """A layer of latent attention behind two of delta attention, none of which knows positions."""
    heads, dim = 4, 24
    m = Model({"architectures": ["KimiLinearForCausalLM"], "hidden_act": "silu", "rms_norm_eps": 1e-5, "num_key_value_heads": 4, "num_hidden_layers": 4,
               "kv_lora_rank": 32, "q_lora_rank": None, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 24, "mla_use_nope": True, "rope_theta": 10000.0,
               "linear_attn_config": {"num_heads": heads, "head_dim": dim, "short_conv_kernel_size": 4, "full_attn_layers": [3], "kda_layers": [1, 2, 4]},
               "num_experts": 8, "num_experts_per_token": 3, "num_shared_experts": 2, "moe_intermediate_size": 32, "first_k_dense_replace": 1, "moe_layer_freq": 1,
               "routed_scaling_factor": 2.446, "moe_router_activation_func": "sigmoid", "moe_renormalize": True, "num_expert_group": 1, "topk_group": 1})
    x = m.get("model.embed_tokens.weight", 48, 64, scale=1.0)[TOKENS]
    for l in range(4):
        p = f"model.layers.{l}."
        h, s = rms(m, x, p + "input_layernorm"), p + "self_attn."
        if l == 2:
            x = x + latent_attention(m, h, p, None, still, 1e-5)
        else:
            def low(name):
                return lambda h: linear(m, linear(m, h, f"{s}{name}_a_proj", dim, bias=False), f"{s}{name}_b_proj", heads * dim, bias=False)

            def decays(h):
                step = low("f")(h) + m.get(s + "dt_bias", heads * dim, scale=1.0, offset=-1.0)
                rates = np.exp(m.get(s + "A_log", 1, 1, heads, 1, scale=1.0).reshape(heads, 1))
                return -rates * np.log1p(np.exp(step)).reshape(len(h), heads, dim)
            x = x + delta_attention(m, h, s, heads, dim, 1e-5, decays, low("g"))
        h = rms(m, x, p + "post_attention_layernorm")
        if l == 0:
            x = x + swiglu(m, h, p + "mlp.")
        else:
            q = p + "block_sparse_moe."
            weights = 2.446 * sigmoid_experts(m, h, q, 3, 0.25)
            x = x + expert_mlp(m, h, 64, *(f"{q}shared_experts.{w}.weight" for w in PROJECTIONS)) + experts(m, h, weights, [f"{q}experts.%d.{w}.weight" for w in ("w1", "w3", "w2")], 32)
    yield "kimi-linear", m, 128, rms(m, x, "model.norm") @ m.get("lm_head.weight", 48, 64).T


def kimi_k3():
    """Every second layer makes the residual a checkpoint. Experts read and write vectors of 32 elements."""
    heads, dim, every, beta, bound = 4, 24, 2, 2.0, 3.0
    m = Model({"hidden_act": "situ", "activation_situ_beta": beta, "activation_situ_linear_beta": bound, "rms_norm_eps": 1e-5, "num_key_value_heads": 4,
               "num_hidden_layers": 5, "kv_lora_rank": 32, "q_lora_rank": 40, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 24, "mla_use_nope": True,
               "linear_attn_config": {"num_heads": heads, "head_dim": dim, "short_conv_kernel_size": 4, "full_attn_layers": [2, 5], "kda_layers": [1, 3, 4],
                                      "gate_lower_bound": -5.0},
               "num_experts": 8, "num_experts_per_token": 3, "num_shared_experts": 1, "moe_intermediate_size": 48, "routed_expert_hidden_size": 32,
               "first_k_dense_replace": 1, "moe_layer_freq": 1, "routed_scaling_factor": 2.0, "moe_router_activation_func": "sigmoid", "moe_renormalize": True,
               "attn_res_block_size": every, "rope_theta": 10000.0})
    m.folder = {"architectures": ["KimiK3ForConditionalGeneration"], "tie_word_embeddings": False, "text_config": m.c, "vision_config": {"hidden_size": 8}}
    root = "language_model.model."

    def mlp(h, names, width, out=64):
        g, u = (h @ m.get(n, width, h.shape[-1]).T for n in names[:2])
        return beta * np.tanh(g / beta) * sigmoid(g) * bound * np.tanh(u / bound) @ m.get(names[2], out, width).T

    def mix(x, past, name):
        w = m.get(name + "_norm.weight", 64, offset=1.0) * m.get(name + "_proj.weight", 1, 64, scale=0.3)[0]
        if not past:
            return x
        all_ = np.stack(past + [x], 1)
        share = softmax((all_ / np.sqrt((all_ ** 2).mean(-1, keepdims=True) + 1e-5) * w).sum(-1))
        return (share[..., None] * all_).sum(1)

    x, past = m.get(root + "embed_tokens.weight", 48, 64, scale=1.0)[TOKENS], []
    for l in range(5):
        p = f"{root}layers.{l}."
        h, s = rms(m, mix(x, past, p + "self_attention_res"), p + "input_layernorm"), p + "self_attn."
        if l in (1, 4):
            y = gated_latent_attention(m, h, s, 1e-5, still, None)
        else:
            def decays(h):
                step = linear(m, linear(m, h, s + "f_a_proj", dim, bias=False), s + "f_b_proj", heads * dim, bias=False)
                step = (step + m.get(s + "dt_bias", heads * dim, scale=1.0, offset=-1.0)).reshape(len(h), heads, dim)
                return -5.0 * sigmoid(np.exp(m.get(s + "A_log", heads, scale=1.0))[:, None] * step)
            y = delta_attention(m, h, s, heads, dim, 1e-5, decays, lambda h: linear(m, h, s + "g_proj", heads * dim, bias=False))
        if l % every == 0:
            past, x = past + [x], y
        else:
            x = x + y
        h = rms(m, mix(x, past, p + "mlp_res"), p + "post_attention_layernorm")
        if l == 0:
            x = x + mlp(h, [f"{p}mlp.{w}.weight" for w in PROJECTIONS], 96)
            continue
        q = p + "block_sparse_moe."
        z, weights = linear(m, h, q + "routed_expert_down_proj", 32, bias=False), 2.0 * sigmoid_experts(m, h, q, 3, 0.15)
        y = sum(weights[:, e:e + 1] * mlp(z, [f"{q}experts.{e}.{w}.weight" for w in ("w1", "w3", "w2")], 48, 32) for e in range(8))
        y = linear(m, rms_norm(y, m.get(q + "routed_expert_norm.weight", 32, offset=1.0), 1e-5), q + "routed_expert_up_proj", 64, bias=False)
        x = x + y + mlp(h, [f"{q}shared_experts.{w}.weight" for w in PROJECTIONS], 48)
    x = mix(x, past, root + "output_attn_res")
    m.get("vision_tower.patch_embed.proj.weight", 8, 12)
    yield "kimi-k3", m, 128, rms(m, x, root + "norm") @ m.get("language_model.lm_head.weight", 48, 64).T


def gated_latent_attention(m, h, p, eps, turn, freqs, out="o_proj"):
    """Latent attention with a gate of what heads read: of each head where the folder says so, else of each element."""
    c = m.c
    heads, own, turned, value, width = c["num_attention_heads"], c["qk_nope_head_dim"], c["qk_rope_head_dim"], c["v_head_dim"], c["kv_lora_rank"]
    norm = lambda x, name, n: rms_norm(x, m.get(p + name + ".weight", n, offset=1.0), eps)
    q = norm(linear(m, h, p + "q_a_proj", c["q_lora_rank"], bias=False), "q_a_layernorm", c["q_lora_rank"])
    q = heads_of(linear(m, q, p + "q_b_proj", heads * (own + turned), bias=False, scale=0.1), own + turned)
    both = linear(m, h, p + "kv_a_proj_with_mqa", width + turned, bias=False)
    shared = turn(both[:, None, width:], freqs)
    kv = heads_of(linear(m, norm(both[:, :width], "kv_a_layernorm", width), p + "kv_b_proj", heads * (own + value), bias=False), own + value)
    q = np.concatenate([q[..., :own], turn(q[..., own:], freqs)], -1)
    k = np.concatenate([kv[..., :own], np.repeat(shared, heads, 1)], -1)
    of_heads = c.get("gated_attention_proj_granularity_type") == "head_wise"
    gate = sigmoid(linear(m, h, p + "g_proj", heads if of_heads else heads * value, bias=False))
    y = attention(q, k, kv[..., own:]).reshape(len(h), heads, value) * gate.reshape(len(h), heads, -1)
    return linear(m, y.reshape(len(h), heads * value), p + out, c["hidden_size"], bias=False)


def ling3():
    """The third of three layers has latent attention, and so have those behind the last whole group. SwiGLUs of some layers have limits."""
    heads, dim, bound = 4, 24, -4.0
    m = Model({"architectures": ["BailingMoeV3ForCausalLM"], "hidden_act": "silu", "rms_norm_eps": 1e-6, "num_key_value_heads": 4, "num_hidden_layers": 4,
               "head_dim": dim, "layer_group_size": 3, "short_conv_kernel_size": 4, "no_kda_lora": True, "kda_safe_gate": True, "kda_lower_bound": bound,
               "gated_attention_proj_granularity_type": "head_wise", "kv_lora_rank": 32, "q_lora_rank": 40, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8,
               "v_head_dim": 24, "rope_theta": 10000.0, "rope_interleave": True, "num_experts": 8, "num_experts_per_tok": 3, "num_shared_experts": 1,
               "moe_intermediate_size": 32, "moe_shared_expert_intermediate_size": 48, "first_k_dense_replace": 1, "routed_scaling_factor": 2.5,
               "norm_topk_prob": True, "n_group": 4, "topk_group": 2, "score_function": "sigmoid", "num_nextn_predict_layers": 0,
               "expert_swiglu_limit_list": [None, 0.5, None, 0.25], "share_expert_swiglu_limit_list": [0.5, None, 0.75, 0.25]})
    freqs = frequencies(m, 8)

    def mlp(h, p, width, limit):
        g, u = (h @ m.get(f"{p}.{w}.weight", width, 64).T for w in PROJECTIONS[:2])
        g = silu(g)
        if limit:
            g, u = np.minimum(g, limit), np.clip(u, -limit, limit)
        return g * u @ m.get(p + ".down_proj.weight", 64, width).T

    x = m.get("model.word_embeddings.weight", 48, 64, scale=1.0)[TOKENS]
    for l in range(4):
        p, routed, others = f"model.layers.{l}.", m.c["expert_swiglu_limit_list"][l], m.c["share_expert_swiglu_limit_list"][l]
        h, s = rms(m, x, p + "input_layernorm"), p + "attention."
        if l >= 2:
            x = x + gated_latent_attention(m, h, s, 1e-6, rotate_neighbours, freqs, "dense")
        else:
            def decays(h):
                step = linear(m, h, s + "f_proj", heads * dim, bias=False) + m.get(s + "dt_bias", heads * dim, scale=1.0, offset=-1.0)
                return bound * sigmoid(np.exp(m.get(s + "A_log", heads, scale=1.0))[:, None] * step.reshape(len(h), heads, dim))
            x = x + delta_attention(m, h, s, heads, dim, 1e-6, decays, lambda h: linear(m, h, s + "g_proj", heads * dim, bias=False))
        h = rms(m, x, p + "post_attention_layernorm")
        if l == 0:
            x = x + mlp(h, p + "mlp", 96, others)
        else:
            q = p + "mlp."
            weights = 2.5 * sigmoid_experts(m, h, q, 3, 0.1, (4, 2), "gate.expert_bias")
            x = x + mlp(h, q + "shared_experts", 48, others) + sum(weights[:, e:e + 1] * mlp(h, f"{q}experts.{e}", 32, routed) for e in range(8))
    yield "bailingmoe3", m, 128, rms(m, x, "model.norm") @ m.get("lm_head.weight", 48, 64).T


def minimax_text():
    """Lightning attention by its recurrence, in layers of the type 0; what parts give is added to what they read, times alpha."""
    heads, kv, dim, alpha, types = 4, 2, 24, 1.5, [0, 1, 0, 0, 1]
    m = Model({"architectures": ["MiniMaxText01ForCausalLM"], "hidden_act": "silu", "rms_norm_eps": 1e-5, "head_dim": dim, "num_key_value_heads": kv,
               "num_hidden_layers": 5, "attn_type_list": types, "rotary_dim": 8, "rope_theta": 10000.0, "num_local_experts": 8, "num_experts_per_tok": 2,
               "postnorm": True, **{f"layernorm_{part}_{f}": v for part in ("full_attention", "linear_attention", "mlp") for f, v in (("alpha", alpha), ("beta", 1.0))}})
    freqs, n = frequencies(m, 8), len(TOKENS)
    x = m.get("model.embed_tokens.weight", 48, 64, scale=1.0)[TOKENS]
    for l in range(5):
        p = f"model.layers.{l}."
        h, s = rms(m, x, p + "input_layernorm"), p + "self_attn."
        if types[l] == 1:
            q = rotate_part(heads_of(linear(m, h, s + "q_proj", heads * dim, bias=False), dim), freqs)
            k = rotate_part(heads_of(linear(m, h, s + "k_proj", kv * dim, bias=False), dim), freqs)
            v = heads_of(linear(m, h, s + "v_proj", kv * dim, bias=False), dim)
            y = linear(m, attention(q, k, v), s + "o_proj", 64, bias=False)
        else:
            q, k, v = np.split(silu(linear(m, h, s + "qkv_proj", 3 * heads * dim, bias=False)).reshape(n, heads, 3 * dim), 3, -1)
            decay = np.exp(-np.array([2 ** (-8 * (i + 1) / heads) for i in range(heads)]) * (1 - l / 4 + 1e-5))
            state, read = np.zeros((heads, dim, dim)), np.zeros((n, heads, dim))
            for t in range(n):
                state = state * decay[:, None, None] + np.einsum("hk,hv->hkv", k[t], v[t])
                read[t] = np.einsum("hkv,hk->hv", state, q[t])
            read = rms_norm(read.reshape(n, -1), m.get(s + "norm.weight", heads * dim, offset=1.0), 1e-5)
            y = linear(m, read * sigmoid(linear(m, h, s + "output_gate", heads * dim, bias=False)), s + "out_proj", 64, bias=False)
        x = alpha * h + y
        h = rms(m, x, p + "post_attention_layernorm")
        q = p + "block_sparse_moe."
        probabilities = softmax(router(m, h, q + "gate.weight", 8))
        weights = normalised(chosen(np.log(probabilities), probabilities, 2))
        x = alpha * h + experts(m, h, weights, [f"{q}experts.%d.{w}.weight" for w in ("w1", "w3", "w2")], 96)
    yield "minimax-01", m, 128, rms(m, x, "model.norm") @ m.get("lm_head.weight", 48, 64).T


def rotate_part(x, freqs):
    """Of a head's elements the first ones turn, of which those of a pair lie halves apart."""
    return np.concatenate([rotate(x[..., :2 * len(freqs)], freqs), x[..., 2 * len(freqs):]], -1)


if __name__ == "__main__":
    write((kimi_linear, kimi_k3, ling3, minimax_text))
