"""Reference logits as reference.py writes them, of families that share a shape: attention with norms of each head's queries and keys,
perhaps a gate, windows in some layers, and routed experts with shared ones.

    python3 reference_experts.py

Sources: the configurations and model cards of Mistral Small 4 (mistral4), Hy3 (hy_v3), Hunyuan A13B (hunyuan-moe), K-EXAONE (exaone-moe),
North Mini Code (cohere2moe), Trinity (afmoe), Laguna and MiMo-V2-Flash (mimo2).
"""
import math

import numpy as np

from reference import (Model, PROJECTIONS, TOKENS, attention, chosen, expert_mlp, experts, frequencies, latent_decoder, layer_norm, linear,
                       normalised, rms, rms_norm, rotate, rotate_neighbours, router, silu, softmax, write, yarn)


def stacked_experts(m, h, weights, p, width):
    """Experts whose matrices are one tensor of gates and then ups, and one of downs."""
    hidden, n = m.c["hidden_size"], weights.shape[-1]
    both, down = m.get(p + "experts.gate_up_proj", n, 2 * width, hidden), m.get(p + "experts.down_proj", n, hidden, width)
    y = np.zeros_like(h)
    for e in range(n):
        gate, up = np.split(h @ both[e].T, 2, -1)
        y += weights[:, e:e + 1] * (silu(gate) * up @ down[e].T)
    return y


def mistral4():
    """Queries grow with the logarithm of how many original contexts lie before them; YaRN's multiplier goes to the scores, as files have it."""
    m = Model({"architectures": ["Mistral4ForCausalLM"], "model_type": "mistral4", "hidden_act": "silu", "rms_norm_eps": 1e-6, "num_key_value_heads": 4,
               "kv_lora_rank": 32, "q_lora_rank": 40, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 24, "num_hidden_layers": 3,
               "moe_intermediate_size": 32, "n_routed_experts": 8, "n_shared_experts": 1, "num_experts_per_tok": 3, "first_k_dense_replace": 0,
               "norm_topk_prob": True, "routed_scaling_factor": 1.0, "n_group": 1, "topk_group": 1,
               "rope_parameters": {"type": "yarn", "rope_theta": 10000.0, "factor": 8.0, "original_max_position_embeddings": 16, "beta_fast": 2.0,
                                   "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.1}})
    freqs = yarn(frequencies(m, 8), 8, 10000.0, 8.0, 16, fast=2.0)
    grown = 1 + 0.1 * np.log(1 + np.arange(len(TOKENS)) // 16)

    def mlp(m, h, p):
        scores = softmax(router(m, h, p + "gate.weight", 8))
        shared = expert_mlp(m, h, 32, *(f"{p}shared_experts.{w}.weight" for w in PROJECTIONS))
        return shared + stacked_experts(m, h, normalised(chosen(np.log(scores), scores, 3)), p, 32)
    scale = (0.1 * math.log(8) + 1) ** 2 / math.sqrt(24)
    h = latent_decoder(m, freqs, rotate_neighbours, scale * grown[:, None], mlp=mlp)
    yield "mistral4", m, 128, h @ m.get("lm_head.weight", 48, 64).T


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def scored(m, h, p, used=3, gate="gate.weight", bias="gate.e_score_correction_bias", shared="shared_experts", width=32, sharing=1, norm=True, scale=1.0, groups=None, biases=0.1):
    """Eight experts, scored by a sigmoid; a bias counts for the choice only, from the best groups where there are groups."""
    scores = sigmoid(router(m, h, p + gate, 8))
    rank = scores + (m.get(p + bias, 8, scale=biases) if bias else 0)
    if groups:
        n, best = groups
        wide = 8 // n
        order = np.argsort(-np.sort(rank.reshape(len(h), n, -1), -1)[..., -2:].sum(-1), -1)[:, :best]
        for t in range(len(h)):
            for g in range(n):
                if g not in order[t]:
                    rank[t, wide * g:wide * (g + 1)] = -np.inf
    weights = chosen(rank, scores, used)
    y = experts(m, h, scale * (normalised(weights) if norm else weights), [f"{p}experts.%d.{w}.weight" for w in PROJECTIONS], width)
    return y + expert_mlp(m, h, width * sharing, *(f"{p}{shared}.{w}.weight" for w in PROJECTIONS)) if shared else y


def dense(m, h, p):
    return expert_mlp(m, h, m.c["intermediate_size"], *(f"{p}{w}.weight" for w in PROJECTIONS))


def grouped(m, h, p, heads=4, kv=2, dim=16, value=None, norms=("q_norm", "k_norm"), freqs=None, turn=rotate, window=None, magnitude=1.0, gate=None, by=sigmoid,
            sinks=None, first=False):
    """Grouped-query attention. Heads of q and k are normed before they are rotated, or behind that (first); by of a gate, which has a number for each
    head or for each element, multiplies what they read."""
    hidden, value = m.c["hidden_size"], value or dim
    q, k, v = ((h @ m.get(f"{p}{n}_proj.weight", count * wide, hidden, scale=0.1 if n == "q" and not norms else 0.25).T).reshape(len(h), count, wide)
               for n, count, wide in (("q", heads, dim), ("k", kv, dim), ("v", kv, value)))
    turned = lambda x: turn(x, freqs, magnitude) if freqs is not None else x
    normed = lambda x, n: rms_norm(x, m.get(f"{p}{n}.weight", dim, offset=0.75), m.c["rms_norm_eps"])
    if first:
        q, k = turned(q), turned(k)
    if norms:
        q, k = normed(q, norms[0]), normed(k, norms[1])
    if not first:
        q, k = turned(q), turned(k)
    read = attention(q, k, v, window, sinks=m.get(p + sinks, heads, scale=1.0) if sinks else None)
    if gate:
        name, rows = gate
        g = by(h @ m.get(p + name, rows, hidden).T)
        read = read * (np.repeat(g, value, -1) if rows == heads else g)
    return read @ m.get(p + "o_proj.weight", hidden, heads * value).T


def decoder(m, attend, mlp, before=("input_layernorm", "post_attention_layernorm"), after=None, embedding=1.0, norm=rms, logits=1.0):
    """x += attend(norm(x)); x += mlp(norm(x)), perhaps with norms of what is added; with one norm both read that."""
    x = table = m.get("model.embed_tokens.weight", 48, 64, scale=1.0)
    x = x[TOKENS] * embedding
    for layer in range(m.c["num_hidden_layers"]):
        p = f"model.layers.{layer}."
        h = norm(m, x, p + before[0])
        y = attend(h, p + "self_attn.", layer)
        if len(before) == 1:
            x = x + y + mlp(h, p + "mlp.", layer)
            continue
        x = x + (norm(m, y, p + after[0]) if after else y)
        y = mlp(norm(m, x, p + before[1]), p + "mlp.", layer)
        x = x + (norm(m, y, p + after[1]) if after else y)
    head = table if m.c["tie_word_embeddings"] else m.get("lm_head.weight", 48, 64)
    return logits * (norm(m, x, "model.norm") @ head.T)


BASE = {"hidden_act": "silu", "rms_norm_eps": 1e-5, "head_dim": 16, "num_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 32}
SPARSE = lambda layers, first: ["dense" if i < first else "sparse" for i in range(layers)]
KINDS = lambda full: ["full_attention" if f else "sliding_attention" for f in full]


def hy_v3():
    m = Model({**BASE, "architectures": ["HYV3ForCausalLM"], "num_shared_experts": 1, "router_scaling_factor": 2.826, "mlp_layer_types": SPARSE(3, 1), "rope_theta": 11158840.0})
    freqs = frequencies(m, 16)
    yield "hy_v3", m, 128, decoder(m, lambda h, p, layer: grouped(m, h, p, freqs=freqs),
                                   lambda h, p, layer: scored(m, h, p, bias="e_score_correction_bias", scale=2.826) if layer else dense(m, h, p))


def hunyuan_moe():
    m = Model({**BASE, "architectures": ["HunYuanMoEV1ForCausalLM"], "intermediate_size": 32, "moe_intermediate_size": [32] * 3, "moe_topk": [3] * 3,
               "num_shared_expert": [1] * 3, "rope_scaling": {"type": "dynamic", "alpha": 1000.0, "factor": 1.0}})
    m.c["rope_theta"] = 10000.0
    freqs = (10000.0 * 1000 ** (16 / 14)) ** (-np.arange(0, 16, 2) / 16)

    def mlp(h, p, layer):
        scores = softmax(router(m, h, p + "gate.wg.weight", 8))
        y = experts(m, h, normalised(chosen(np.log(scores), scores, 3)), [f"{p}experts.%d.{w}.weight" for w in PROJECTIONS], 32)
        return y + expert_mlp(m, h, 32, *(f"{p}shared_mlp.{w}.weight" for w in PROJECTIONS))
    yield "hunyuan-moe", m, 128, decoder(m, lambda h, p, layer: grouped(m, h, p, freqs=freqs, norms=("query_layernorm", "key_layernorm"), first=True), mlp)


def exaone_moe():
    """Three of four layers have a window; the others are not rotated."""
    m = Model({**BASE, "architectures": ["ExaoneMoEForCausalLM"], "num_hidden_layers": 5, "num_shared_experts": 1, "first_k_dense_replace": 1, "routed_scaling_factor": 2.5,
               "norm_topk_prob": True, "n_group": 4, "topk_group": 2, "sliding_window": 6, "sliding_window_pattern": "LLLG", "rope_theta": 1000000.0})
    freqs = frequencies(m, 16)
    yield "exaone-moe", m, 128, decoder(m, lambda h, p, layer: grouped(m, h, p, freqs=freqs, window=6) if layer % 4 < 3 else grouped(m, h, p),
                                        lambda h, p, layer: scored(m, h, p, scale=2.5, groups=(4, 2), biases=0.13) if layer else dense(m, h, p))


def cohere2_moe():
    """Attention and experts read one norm; the first of four layers has no window, and is rotated only where it has no experts."""
    m = Model({**BASE, "architectures": ["Cohere2MoeForCausalLM"], "num_hidden_layers": 6, "num_shared_experts": 2, "first_k_dense_replace": 1, "norm_topk_prob": True,
               "intermediate_size": 32, "layer_norm_eps": 1e-5, "sliding_window": 6, "layer_types": KINDS([i % 4 == 0 for i in range(6)]), "logit_scale": 0.5,
               "tie_word_embeddings": True})
    freqs = frequencies(m, 16)
    norm = lambda m, x, name: layer_norm(x, m.get(name + ".weight", 64, offset=1.0), 0, 1e-5)

    def attend(h, p, layer):
        full = layer % 4 == 0
        return grouped(m, h, p, norms=None, turn=rotate_neighbours, freqs=freqs if not full or layer == 0 else None, window=None if full else 6)
    yield "cohere2moe", m, 128, decoder(m, attend, lambda h, p, layer: scored(m, h, p, bias=None, sharing=2) / 2 if layer else dense(m, h, p),
                                        before=("input_layernorm",), norm=norm, logits=0.5)


def afmoe():
    """Norms before and after parts; a gate for each element; three of four layers have a window, and they alone are rotated."""
    m = Model({**BASE, "architectures": ["AfmoeForCausalLM"], "num_hidden_layers": 5, "num_shared_experts": 1, "num_dense_layers": 1, "route_norm": True, "route_scale": 2.826,
               "sliding_window": 6, "layer_types": KINDS([i % 4 == 3 for i in range(5)]), "mup_enabled": True})
    freqs = frequencies(m, 16)

    def attend(h, p, layer):
        return grouped(m, h, p, gate=("gate_proj.weight", 64), **({"freqs": freqs, "window": 6} if layer % 4 != 3 else {}))
    yield "afmoe", m, 128, decoder(m, attend, lambda h, p, layer: scored(m, h, p, gate="router.gate.weight", bias="expert_bias", scale=2.826) if layer else dense(m, h, p),
                                   before=("input_layernorm", "pre_mlp_layernorm"), after=("post_attention_layernorm", "post_mlp_layernorm"), embedding=8.0)


def softplus(x):
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def laguna():
    """The first of four layers sees all positions, with YaRN on half of each head; the others have more heads. The gate is of heads, or of elements."""
    heads = [4, 6, 6, 6, 4]
    m = Model({**BASE, "architectures": ["LagunaForCausalLM"], "num_hidden_layers": 5, "num_attention_heads_per_layer": heads, "shared_expert_intermediate_size": 32,
               "moe_routed_scaling_factor": 2.5, "mlp_layer_types": SPARSE(5, 1), "gating": True, "sliding_window": 6, "layer_types": KINDS([i % 4 == 0 for i in range(5)]),
               "rope_parameters": {"full_attention": {"rope_type": "yarn", "rope_theta": 500000.0, "partial_rotary_factor": 0.5, "factor": 8.0, "beta_fast": 2.0,
                                                      "beta_slow": 1.0, "original_max_position_embeddings": 16},
                                   "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 1.0}}})
    full, plain = yarn(500000.0 ** (-np.arange(0, 8, 2) / 8), 8, 500000.0, 8.0, 16, fast=2.0), 10000.0 ** (-np.arange(0, 16, 2) / 16)

    def attend(h, p, layer):
        more = {"freqs": full, "magnitude": 0.1 * math.log(8) + 1} if layer % 4 == 0 else {"freqs": plain, "window": 6}
        return grouped(m, h, p, heads=heads[layer], gate=("g_proj.weight", heads[layer]), by=softplus, **more)
    yield "laguna", m, 128, decoder(m, attend, lambda h, p, layer: scored(m, h, p, scale=2.5, biases=0.13) if layer else dense(m, h, p))
    m = Model({**BASE, "architectures": ["LagunaForCausalLM"], "shared_expert_intermediate_size": 32, "moe_routed_scaling_factor": 1.0, "mlp_layer_types": SPARSE(3, 1),
               "gating": "per-element", "rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 500000.0, "partial_rotary_factor": 0.5}}})
    freqs = 500000.0 ** (-np.arange(0, 8, 2) / 8)
    yield "laguna-full", m, 128, decoder(m, lambda h, p, layer: grouped(m, h, p, freqs=freqs, gate=("g_proj.weight", 64), by=softplus),
                                         lambda h, p, layer: scored(m, h, p, bias="experts.e_score_correction_bias") if layer else dense(m, h, p))


def mimo2():
    """Values are narrower than keys, and scaled; layers with windows have sinks, a base and KV heads of their own."""
    hybrid = [0, 1, 1, 0, 1]
    m = Model({**BASE, "architectures": ["MiMoV2FlashForCausalLM"], "num_hidden_layers": 5, "head_dim": 24, "v_head_dim": 16, "num_key_value_heads": 1, "swa_num_key_value_heads": 2,
               "hybrid_layer_pattern": hybrid, "moe_layer_freq": [0, 1, 1, 1, 1], "n_routed_experts": 8, "norm_topk_prob": True, "scoring_func": "sigmoid", "sliding_window": 6,
               "partial_rotary_factor": 0.334, "rope_theta": 5000000.0, "swa_rope_theta": 10000.0, "attention_value_scale": 0.707, "layernorm_epsilon": 1e-5})
    del m.c["num_experts"]

    def attend(h, p, layer):
        more = {"kv": 2, "window": 6, "sinks": "attention_sink_bias", "freqs": 10000.0 ** (-np.arange(0, 8, 2) / 8)} if hybrid[layer] else \
            {"kv": 1, "freqs": 5000000.0 ** (-np.arange(0, 8, 2) / 8)}
        return 0.707 * grouped(m, h, p, dim=24, value=16, norms=None, **more)
    yield "mimo2", m, 128, decoder(m, attend, lambda h, p, layer: scored(m, h, p, shared=None, biases=0.12) if layer else dense(m, h, p))


if __name__ == "__main__":
    write((mistral4, hy_v3, hunyuan_moe, exaone_moe, cohere2_moe, afmoe, laguna, mimo2))
