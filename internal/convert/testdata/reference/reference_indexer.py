"""As reference.py, of families whose attention sees what an indexer selects: deepseek32 (DeepSeek-AI 2025, DeepSeek-V3.2), glm-dsa (GLM-5 and its
configuration), minimax-m3 (MiniMax-M3's configuration).

    python3 reference_indexer.py
"""
import math

import numpy as np

from reference import (TOKENS, Model, chosen, deepseek_experts, frequencies, heads_of, layer_norm, linear, normalised, rms, rms_norm, rotate, rotate_neighbours,
                       router, silu, softmax, write, yarn)


def see(q, k, v, seen, scale):
    """Attention of q [n, heads, dim] to those of k and v [n, heads, dim] that seen [n, heads, n] names."""
    s = np.where(seen, np.einsum("qhd,khd->qhk", q, k) * scale, -np.inf)
    return np.einsum("qhk,khd->qhd", softmax(s), v).reshape(len(q), -1)


def best(scores, top):
    """Which of the positions up to a token's own have the highest scores [n, n], of equal ones the first."""
    seen = np.zeros(scores.shape, bool)
    for t, row in enumerate(scores):
        order = np.argsort(-row[:t + 1], kind="stable")
        seen[t, order[:top]] = True
        if t >= top:
            a, b = row[order[top - 1]], row[order[top]]
            assert a == b == 0 or a - b > 0.0007 * np.abs(row[:t + 1]).max(), (t, a, b)  # roundings choose the same
    return seen


def index(m, h, queries, p, freqs, turn):
    """The positions that the index heads of DeepSeek V3.2 select. queries is the latent vector of attention's queries."""
    heads, dim = m.c["index_n_heads"], m.c["index_head_dim"]
    q = turn(heads_of(linear(m, queries, p + "wq_b", heads * dim, bias=False), dim), freqs)
    k = linear(m, h, p + "wk", dim, bias=False)
    k = layer_norm(k, m.get(p + "k_norm.weight", dim, offset=1.0), m.get(p + "k_norm.bias", dim), 1e-6)
    k = turn(k[:, None], freqs)[:, 0]
    w = linear(m, h, p + "weights_proj", heads, bias=False) / math.sqrt(heads * dim)
    return best(np.einsum("qh,qhk->qk", w, np.maximum(np.einsum("qhd,kd->qhk", q, k), 0)), m.c["index_topk"])


def sparse_latent(m, h, p, freqs, scale, turn, owns, before):
    """Latent attention to what the layer's indexer selects, or what before has where it owns none."""
    c, p = m.c, p + "self_attn."
    heads, own, turned, value, width, queries = (c["num_attention_heads"], c["qk_nope_head_dim"], c["qk_rope_head_dim"], c["v_head_dim"], c["kv_lora_rank"],
                                                 c["q_lora_rank"])
    norm = lambda x, name, n: rms_norm(x, m.get(p + name + ".weight", n, offset=1.0), c["rms_norm_eps"])
    latent = norm(linear(m, h, p + "q_a_proj", queries, bias=False), "q_a_layernorm", queries)
    seen = index(m, h, latent, p + "indexer.", freqs, turn) if owns else before
    q = heads_of(linear(m, latent, p + "q_b_proj", heads * (own + turned), bias=False, scale=0.1), own + turned)
    both = linear(m, h, p + "kv_a_proj_with_mqa", width + turned, bias=False)
    shared = rotate_neighbours(both[:, None, width:], freqs)
    kv = heads_of(linear(m, norm(both[:, :width], "kv_a_layernorm", width), p + "kv_b_proj", heads * (own + value), bias=False), own + value)
    q = np.concatenate([q[..., :own], rotate_neighbours(q[..., own:], freqs)], -1)
    k = np.concatenate([kv[..., :own], np.repeat(shared, heads, 1)], -1)
    return linear(m, see(q, k, kv[..., own:], seen[:, None], scale), p + "o_proj", c["hidden_size"], bias=False), seen


def sparse_deepseek(m, freqs, scale, turn, owns, table):
    x, seen = m.get("model.embed_tokens.weight", 48, 64, scale=table)[TOKENS], None
    for layer in range(m.c["num_hidden_layers"]):
        p = f"model.layers.{layer}."
        y, seen = sparse_latent(m, rms(m, x, p + "input_layernorm"), p, freqs, scale, turn, owns[layer], seen)
        x = x + y
        h = rms(m, x, p + "post_attention_layernorm")
        y = deepseek_experts(m, h, p + "mlp.", "sigmoid")
        if y is None:
            h = silu(linear(m, h, p + "mlp.gate_proj", 96, bias=False)) * linear(m, h, p + "mlp.up_proj", 96, bias=False)
            y = linear(m, h, p + "mlp.down_proj", 64, bias=False)
        x = x + y
    return rms(m, x, "model.norm") @ m.get("lm_head.weight", 48, 64).T


def deepseek32():
    """Index heads are rotated in pairs of halves, attention's in neighbours. GLM's are rotated alike; in GLM 5.2 some layers select for others."""
    base = {"hidden_act": "silu", "rms_norm_eps": 1e-6, "num_key_value_heads": 4, "kv_lora_rank": 32, "q_lora_rank": 40, "qk_nope_head_dim": 16,
            "qk_rope_head_dim": 8, "v_head_dim": 24, "num_hidden_layers": 4, "moe_intermediate_size": 32, "n_routed_experts": 8, "n_shared_experts": 2,
            "num_experts_per_tok": 3, "first_k_dense_replace": 1, "moe_layer_freq": 1, "norm_topk_prob": True, "routed_scaling_factor": 2.5, "scoring_func": "sigmoid",
            "index_n_heads": 5, "index_head_dim": 16, "index_topk": 6}
    m = Model({**base, "architectures": ["DeepseekV32ForCausalLM"], "topk_method": "noaux_tc", "n_group": 4, "topk_group": 2,
               "rope_scaling": {"type": "yarn", "factor": 8, "original_max_position_embeddings": 16, "beta_fast": 2.0, "beta_slow": 1.0, "mscale": 1.0,
                                "mscale_all_dim": 1.0}})
    freqs, scale = yarn(frequencies(m, 8), 8, 10000.0, 8.0, 16, fast=2.0), (0.1 * math.log(8) + 1) ** 2 / math.sqrt(24)
    yield "deepseek32", m, 128, sparse_deepseek(m, freqs, scale, rotate, [True] * 4, 1.02)
    for name, kinds, table in (("glm-dsa", None, 1.0), ("glm-dsa-shared", ["full", "shared", "full", "shared"], 1.02)):
        m = Model({**base, "architectures": ["GlmMoeDsaForCausalLM"], "n_group": 1, "topk_group": 1, "rope_parameters": {"rope_type": "default", "rope_theta": 1e6}})
        if kinds:
            m.c["indexer_types"] = kinds
        freqs = 1e6 ** (-np.arange(0, 8, 2) / 8)
        yield name, m, 128, sparse_deepseek(m, freqs, 1 / math.sqrt(24), rotate_neighbours, [k == "full" for k in kinds or ["full"] * 4], table)


def apart(row, chosen, others):
    """Whether roundings choose the same."""
    return not len(others) or row[chosen].min() - row[others].max() > 0.0007 * np.abs(row).max()


def best_blocks(scores, block, top, local):
    """Which positions lie in the blocks with the highest scores, which are their best position's; the last local blocks count as the highest. scores
    [n, groups, n]"""
    seen = np.zeros(scores.shape, bool)
    for t, group in np.ndindex(*scores.shape[:2]):
        row, own = scores[t, group], t // block
        blocks = np.array([row[b * block:min((b + 1) * block, t + 1)].max() for b in range(own + 1)])
        forced = [b for b in range(own + 1) if b > own - local]
        rest = sorted((b for b in range(own + 1) if b not in forced), key=lambda b: (-blocks[b], b))
        assert apart(blocks, rest[:top - len(forced)], rest[top - len(forced):]) if len(rest) > top - len(forced) > 0 else True, (t, group)
        for b in forced + rest[:top - len(forced)]:
            seen[t, group, b * block:min((b + 1) * block, t + 1)] = True
    return seen


def clamped(g, u):
    g, u = np.minimum(g, 7.0), np.clip(u, -7.0, 7.0)
    return g / (1 + np.exp(-1.702 * g)) * (u + 1)


def minimax_m3():
    """Norms store their weights less 1. In layers with experts each pair of query heads sees the blocks that its index head chooses."""
    sizes = {"sparse_num_index_heads": 2, "sparse_index_dim": 16, "sparse_topk_blocks": 3, "sparse_block_size": 4, "sparse_local_block": 1}
    c = {"architectures": ["MiniMaxM3SparseForCausalLM"], "rms_norm_eps": 1e-6, "head_dim": 32, "rotary_dim": 16, "intermediate_size": 32,
         "dense_intermediate_size": 80, "num_hidden_layers": 4, "num_local_experts": 8, "num_experts_per_tok": 3, "n_shared_experts": 1,
         "routed_scaling_factor": 2.0, "scoring_func": "sigmoid", "rope_theta": 10000.0, "moe_layer_freq": [0, 1, 1, 1], "sparse_attention_config": sizes}
    m = Model(c)
    norm = lambda x, name: rms_norm(x, 1 + m.get(name + ".weight", x.shape[-1]), 1e-6)
    freqs = frequencies(m, 16)

    def mlp(h, width, names):
        g, u = (h @ m.get(n, width, 64).T for n in names[:2])
        return clamped(g, u) @ m.get(names[2], 64, width).T
    x = m.get("model.embed_tokens.weight", 48, 64, scale=1.4)[TOKENS]
    for layer in range(4):
        p = f"model.layers.{layer}.self_attn."
        h = norm(x, f"model.layers.{layer}.input_layernorm")
        q, k, v = (heads_of(linear(m, h, f"{p}{n}_proj", 32 * w, bias=False), 32) for n, w in (("q", 4), ("k", 2), ("v", 2)))
        q, k = rotate(norm(q, p + "q_norm"), freqs), rotate(norm(k, p + "k_norm"), freqs)
        seen = np.tril(np.ones((len(x), len(x)), bool))[:, None].repeat(4, 1)
        if layer:
            iq = rotate(norm(heads_of(linear(m, h, p + "index_q_proj", 32, bias=False), 16), p + "index_q_norm"), freqs)
            ik = rotate(norm(linear(m, h, p + "index_k_proj", 16, bias=False), p + "index_k_norm")[:, None], freqs)[:, 0]
            seen = best_blocks(np.einsum("qhd,kd->qhk", iq, ik), 4, 3, 1).repeat(2, 1)
        x = x + linear(m, see(q, k.repeat(2, 1), v.repeat(2, 1), seen, 1 / math.sqrt(32)), p + "o_proj", 64, bias=False)
        h = norm(x, f"model.layers.{layer}.post_attention_layernorm")
        if not layer:
            x = x + mlp(h, 80, [f"model.layers.0.mlp.{w}_proj.weight" for w in ("gate", "up", "down")])
            continue
        p = f"model.layers.{layer}.block_sparse_moe."
        scores = 1 / (1 + np.exp(-router(m, h, p + "gate.weight", 8)))
        weights = 2.0 * normalised(chosen(scores + m.get(p + "e_score_correction_bias", 8, scale=0.375), scores, 3))
        y = mlp(h, 32, [f"{p}shared_experts.{w}_proj.weight" for w in ("gate", "up", "down")])
        for e in range(8):
            y = y + weights[:, e:e + 1] * mlp(h, 32, [f"{p}experts.{e}.{w}.weight" for w in ("w1", "w3", "w2")])
        x = x + y
    yield "minimax-m3", m, 128, norm(x, "model.norm") @ m.get("lm_head.weight", 48, 64).T


if __name__ == "__main__":
    write((deepseek32, minimax_m3))
