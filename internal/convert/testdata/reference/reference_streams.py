"""As reference.py, of families whose residual is several streams: hy_v4 (the configuration of Hy4-preview), deepseek4 (DeepSeek-AI 2026, DeepSeek-V4, and its
configuration).

    python3 reference_streams.py
"""
import math

import numpy as np

from reference import (TOKENS, Model, chosen, expert_mlp, experts, frequencies, heads_of, linear, normalised, rms, rms_norm, rotate_neighbours, router, silu,
                       softmax, write, yarn)
from reference_indexer import best, layer_norm

sigmoid = lambda x: 1 / (1 + np.exp(-x))


def limited(limit):
    """A SwiGLU whose gate is at most limit, and whose other factor is so in magnitude."""
    return lambda gate, up: silu(np.minimum(gate, limit)) * np.clip(up, -limit, limit)


def weights(m, x, name, parts):
    """What hyper-connections compute of the streams x [n, streams, width]: the sums of their products, scaled and shifted, one part after the other."""
    streams, flat = m.c["hc_mult"], x.reshape(len(x), -1)
    sizes = [streams, streams, streams * streams][:parts]
    y = rms_norm(flat, 1.0, m.c["rms_norm_eps"]) @ m.get(name + "fn", sum(sizes), flat.shape[-1], scale=0.1).T
    scale, base = m.get(name + "scale", parts, offset=0.8), m.get(name + "base", sum(sizes), scale=0.5)
    y = y * np.repeat(scale, sizes) + base
    return np.split(y, np.cumsum(sizes)[:-1], -1)


def read(m, x, w):
    return np.einsum("nc,ncd->nd", sigmoid(w) + m.c["hc_eps"], x)


def balanced(m, w):
    """Mixes [n, from, to]: rows are shares of 1; then columns and rows are divided by their sums in turn."""
    eps, streams = m.c["hc_eps"], m.c["hc_mult"]
    mix = softmax(w.reshape(len(w), streams, streams)) + eps
    for i in range(m.c["hc_sinkhorn_iters"]):
        if i:
            mix = mix / (mix.sum(2, keepdims=True) + eps)
        mix = mix / (mix.sum(1, keepdims=True) + eps)
    return mix


def sink_attention(q, k, v, seen, scale, sinks):
    """q [n, heads, dim], k and v [rows, heads or 1, dim]; seen [n, rows]."""
    s = np.einsum("qhd,khd->qhk", q, np.broadcast_to(k, (len(k), q.shape[1], k.shape[-1]))) * scale
    s = np.where(seen[:, None] if seen.ndim == 2 else seen, s, -np.inf)
    top = np.maximum(s.max(-1, keepdims=True), sinks[:, None])
    s = np.exp(s - top)
    s = s / (s.sum(-1, keepdims=True) + np.exp(sinks[:, None] - top))
    return np.einsum("qhk,khd->qhd", s, np.broadcast_to(v, (len(v), q.shape[1], v.shape[-1])))


def hy_attention(m, h, p, freqs, owns, before):
    c = m.c
    heads, own, turned, value, width, queries = (c["num_attention_heads"], c["qk_nope_head_dim"], c["qk_rope_head_dim"], c["v_head_dim"], c["kv_lora_rank"],
                                                 c["q_lora_rank"])
    norm = lambda x, name, n: rms_norm(x, m.get(p + name + ".weight", n, offset=1.0), c["rms_norm_eps"])
    latent = norm(linear(m, h, p + "q_a_proj", queries, bias=False), "q_a_layernorm", queries)
    seen = before
    if owns:
        n, dim = c["index_n_heads"], c["index_head_dim"]
        turn = lambda x: np.concatenate([x[..., :-turned], rotate_neighbours(x[..., -turned:], freqs)], -1)
        q = turn(heads_of(linear(m, latent, p + "indexer.wq_b", n * dim, bias=False), dim))
        k = linear(m, h, p + "indexer.wk", dim, bias=False)
        k = layer_norm(k, m.get(p + "indexer.k_norm.weight", dim, offset=1.0), m.get(p + "indexer.k_norm.bias", dim), c["rms_norm_eps"])
        w = linear(m, h, p + "indexer.weights_proj", n, bias=False) / math.sqrt(n * dim)
        seen = best(np.einsum("qh,qhk->qk", w, np.maximum(np.einsum("qhd,kd->qhk", q, turn(k[:, None])[:, 0]), 0)), c["index_topk"])
    q = heads_of(linear(m, latent, p + "q_b_proj", heads * (own + turned), bias=False), own + turned)
    both = linear(m, h, p + "kv_a_proj_with_mqa", width + turned, bias=False)
    shared = rotate_neighbours(both[:, None, width:], freqs)
    kv = heads_of(linear(m, norm(both[:, :width], "kv_a_layernorm", width), p + "kv_b_proj", heads * (own + value), bias=False), own + value)
    q = np.concatenate([q[..., :own], rotate_neighbours(q[..., own:], freqs)], -1)
    k = np.concatenate([kv[..., :own], np.repeat(shared, heads, 1)], -1)
    sinks = m.get(p + "learnable_sink_param", heads, scale=1.0)
    causal = np.tril(np.ones((len(h), len(h)), bool)) if seen is None else seen
    y = sink_attention(q, k, kv[..., own:], causal, 1 / math.sqrt(own + turned), sinks).reshape(len(h), -1)
    y = y * sigmoid(linear(m, h, p + "linear_gate", heads * value, bias=False))
    return linear(m, y, p + "o_proj", c["hidden_size"], bias=False), seen


def hy_experts(m, h, p):
    c = m.c
    scores = sigmoid(router(m, h, p + "gate.weight", 8))
    w = normalised(chosen(scores + m.get(p + "gate.e_score_correction_bias", 8, scale=0.1), scores, 3)) * c["routed_scaling_factor"]
    act, width = limited(c["swiglu_limit"]), c["moe_intermediate_size"]
    both = m.get(p + "experts.gate_up_proj", 8, 2 * width, c["hidden_size"])
    down = m.get(p + "experts.down_proj", 8, c["hidden_size"], width)
    y = sum(w[:, e:e + 1] * (act(h @ both[e, :width].T, h @ both[e, width:].T) @ down[e].T) for e in range(8))
    return y + expert_mlp(m, h, width, *(f"{p}shared_experts.{n}_proj.weight" for n in ("gate", "up", "down")))


def hy_v4():
    """Layer 0 has no experts; the second folder's attention sees what indexers select, of which layers 0 and 2 have one."""
    for name, kinds in (("hy_v4", None), ("hy_v4-dsa", ["full", "shared", "full"])):
        m = Model({"architectures": ["HYV4ForCausalLM"], "hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "num_key_value_heads": 8,
                   "kv_lora_rank": 32, "q_lora_rank": 40, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 24, "moe_intermediate_size": 32,
                   "n_routed_experts": 8, "n_shared_experts": 1, "num_experts_per_tok": 3, "first_k_dense_replace": 1, "norm_topk_prob": True,
                   "routed_scaling_factor": 2.5, "swiglu_limit": 0.5, "hc_mult": 3, "hc_eps": 1e-3, "hc_magnitude": 1.7})
        if kinds:
            m.c.update({"indexer_types": kinds, "index_n_heads": 5, "index_head_dim": 16, "index_topk": 6})
        c, freqs, seen = m.c, 10000.0 ** (-np.arange(0, 8, 2) / 8), None
        x = np.repeat(m.get("model.embed_tokens.weight", 48, 64, scale=1.0)[TOKENS][:, None], 3, 1)
        add = lambda x, w, y: x + (c["hc_magnitude"] * sigmoid(w) + c["hc_eps"])[:, :, None] * y[:, None]
        for layer in range(3):
            p = f"model.layers.{layer}."
            pre, post = weights(m, x, p + "hc_attn_layer.hc_pre.hc_", 2)
            y, seen = hy_attention(m, rms(m, read(m, x, pre), p + "input_layernorm"), p + "self_attn.", freqs, kinds and kinds[layer] == "full", seen)
            x = add(x, post, y)
            pre, post = weights(m, x, p + "hc_mlp_layer.hc_pre.hc_", 2)
            h = rms(m, read(m, x, pre), p + "post_attention_layernorm")
            if layer == 0:
                h = silu(linear(m, h, p + "mlp.gate_proj", 96, bias=False)) * linear(m, h, p + "mlp.up_proj", 96, bias=False)
                y = linear(m, h, p + "mlp.down_proj", 64, bias=False)
            else:
                y = hy_experts(m, h, p + "mlp.")
            x = add(x, post, y)
        pre, = weights(m, x, "model.hc_head.hc_head_", 1)
        yield name, m, 128, rms(m, read(m, x, pre), "model.norm") @ m.get("lm_head.weight", 48, 64).T


def compressed(m, h, p, key, ratio, freqs, turned):
    """The keys of whole blocks, rotated at their first positions. Short blocks take half of their elements from the block before."""
    overlap = ratio == 4
    columns = key * (2 if overlap else 1)
    content, score = linear(m, h, p + "wkv", columns, bias=False), linear(m, h, p + "wgate", columns, bias=False)
    ape, w = m.get(p + "ape", ratio, columns, scale=0.5), m.get(p + "norm.weight", key, offset=1.0)
    score = score + ape[np.arange(len(h)) % ratio]
    rows = []
    for b in range(len(h) // ratio):
        own = slice(b * ratio, (b + 1) * ratio)
        c, s = content[own, columns - key:], score[own, columns - key:]
        if overlap and b:
            before = slice((b - 1) * ratio, b * ratio)
            c, s = np.concatenate([content[before, :key], c]), np.concatenate([score[before, :key], s])
        rows.append((softmax(s.T).T * c).sum(0))
    if not rows:
        return np.zeros((0, key))
    rows = rms_norm(np.array(rows), w, m.c["rms_norm_eps"])
    every = np.zeros((len(h), 1, turned))  # so that a row has its block's first position
    every[::ratio][:len(rows), 0] = rows[:, -turned:]
    return np.concatenate([rows[:, :-turned], rotate_neighbours(every, freqs)[::ratio][:len(rows), 0]], -1)


def v4_attention(m, h, p, ratio, plain, slow):
    c, n = m.c, len(h)
    heads, key, turned, groups = c["num_attention_heads"], c["head_dim"], c["qk_rope_head_dim"], c["o_groups"]
    freqs = slow if ratio else plain
    turn = lambda x, f: np.concatenate([x[..., :-turned], rotate_neighbours(x[..., -turned:], f)], -1)
    latent = rms_norm(linear(m, h, p + "wq_a", c["q_lora_rank"], bias=False), m.get(p + "q_norm.weight", c["q_lora_rank"], offset=1.0), c["rms_norm_eps"])
    q = turn(rms_norm(heads_of(linear(m, latent, p + "wq_b", heads * key, bias=False), key), 1.0, c["rms_norm_eps"]), freqs)
    kv = rms_norm(linear(m, h, p + "wkv", key, bias=False), m.get(p + "kv_norm.weight", key, offset=1.0), c["rms_norm_eps"])
    kv = turn(kv[:, None], freqs)[:, 0]
    i, j = np.arange(n)[:, None], np.arange(n)[None]
    seen = (j <= i) & (j > i - c["sliding_window"])
    if ratio:
        rows = compressed(m, h, p + "compressor.", key, ratio, freqs, turned)
        whole = (np.arange(len(rows)) + 1)[None] * ratio <= i + 1
        if ratio == 4:
            ih, dim = c["index_n_heads"], c["index_head_dim"]
            iq = turn(heads_of(linear(m, latent, p + "indexer.wq_b", ih * dim, bias=False), dim), freqs)
            ik = compressed(m, h, p + "indexer.compressor.", dim, ratio, freqs, turned)
            w = linear(m, h, p + "indexer.weights_proj", ih, bias=False) / math.sqrt(ih * dim)
            scores = np.einsum("qh,qhk->qk", w, np.maximum(np.einsum("qhd,kd->qhk", iq, ik), 0))
            for t in range(n):
                order = np.argsort(-scores[t, :whole[t].sum()], kind="stable")
                if len(order) > c["index_topk"]:
                    a, b = scores[t, order[c["index_topk"] - 1]], scores[t, order[c["index_topk"]]]
                    assert a == b == 0 or a - b > 0.0007 * np.abs(scores[t, order]).max(), (t, a, b)  # roundings choose the same
                whole[t] = False
                whole[t, order[:c["index_topk"]]] = True
        kv, seen = np.concatenate([kv, rows]), np.concatenate([seen, whole], 1)
    out = sink_attention(q, kv[:, None], kv[:, None], seen, 1 / math.sqrt(key), m.get(p + "attn_sink", heads, scale=1.0))
    out = turn(out, -freqs).reshape(n, groups, -1)
    low = m.get(p + "wo_a.weight", groups * c["o_lora_rank"], out.shape[-1]).reshape(groups, c["o_lora_rank"], -1)
    return linear(m, np.einsum("ngd,grd->ngr", out, low).reshape(n, -1), p + "wo_b", c["hidden_size"], bias=False)


def v4_experts(m, h, p, hashed):
    c, width = m.c, m.c["moe_intermediate_size"]
    logits = router(m, h, p + "gate.weight", 8)
    scores = np.sqrt(np.logaddexp(0, logits))
    if hashed:  # whole numbers from 0 to 7
        ids = m.bytes(p + "gate.tid2eid", 48, 3, scale=4.0, offset=4.0)[TOKENS]
        w = np.zeros(scores.shape)
        for k in range(3):  # an expert may be there twice
            w[np.arange(len(h)), ids[:, k]] += scores[np.arange(len(h)), ids[:, k]]
    else:
        w = chosen(scores + m.get(p + "gate.bias", 8, scale=0.12), scores, 3)
    w, act = normalised(w) * c["routed_scaling_factor"], limited(c["swiglu_limit"])
    swiglu = lambda e: act(linear(m, h, e + "w1", width, bias=False), linear(m, h, e + "w3", width, bias=False))
    y = sum(w[:, e:e + 1] * linear(m, swiglu(f"{p}experts.{e}."), f"{p}experts.{e}.w2", c["hidden_size"], bias=False) for e in range(8))
    return y + linear(m, swiglu(p + "shared_experts."), p + "shared_experts.w2", c["hidden_size"], bias=False)


def deepseek4():
    m = Model({"architectures": ["DeepseekV4ForCausalLM"], "hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "num_hidden_layers": 4,
               "num_key_value_heads": 1, "head_dim": 32, "q_lora_rank": 40, "qk_rope_head_dim": 8, "sliding_window": 6, "o_groups": 2, "o_lora_rank": 24,
               "compress_ratios": [4, 0, 128, 4, 0], "compress_rope_theta": 40000.0, "index_n_heads": 5, "index_head_dim": 16, "index_topk": 3, "moe_intermediate_size": 32,
               "n_routed_experts": 8, "n_shared_experts": 1, "num_experts_per_tok": 3, "norm_topk_prob": True, "scoring_func": "sqrtsoftplus",
               "routed_scaling_factor": 1.5, "swiglu_limit": 0.5, "num_hash_layers": 2, "hc_mult": 4, "hc_eps": 1e-4, "hc_sinkhorn_iters": 3,
               "rope_scaling": {"type": "yarn", "factor": 4, "original_max_position_embeddings": 16, "beta_fast": 2.0, "beta_slow": 1.0}})
    c = m.c
    plain, base = 10000.0 ** (-np.arange(0, 8, 2) / 8), 40000.0
    slow = yarn(base ** (-np.arange(0, 8, 2) / 8), 8, base, 4.0, 16, fast=2.0)
    x = np.repeat(m.get("embed.weight", 48, 64, scale=1.0)[TOKENS][:, None], 4, 1)
    add = lambda x, w, mix, y: 2 * sigmoid(w)[:, :, None] * y[:, None] + np.einsum("nst,nsd->ntd", balanced(m, mix), x)
    for layer in range(4):
        p = f"layers.{layer}."
        pre, post, mix = weights(m, x, p + "hc_attn_", 3)
        y = v4_attention(m, rms(m, read(m, x, pre), p + "attn_norm"), p + "attn.", c["compress_ratios"][layer], plain, slow)
        x = add(x, post, mix, y)
        pre, post, mix = weights(m, x, p + "hc_ffn_", 3)
        x = add(x, post, mix, v4_experts(m, rms(m, read(m, x, pre), p + "ffn_norm"), p + "ffn.", layer < c["num_hash_layers"]))
    pre, = weights(m, x, "hc_head_", 1)
    yield "deepseek4", m, 128, rms(m, read(m, x, pre), "norm") @ m.get("head.weight", 48, 64).T


if __name__ == "__main__":
    write((hy_v4, deepseek4))
