"""Reference logits as reference.py writes them, of plain decoders and of decoders with experts.

    python3 reference_dense.py

Sources: the configurations and model cards of XVERSE (xverse), openPangu Embedded (pangu-embedded), Maincoder (maincoder) and Orion (orion). olmo: Groeneveld et al.
2024. starcoder: Li et al. 2023. bailingmoe: Ling team 2025 and its published code (norms of the head's columns, groups of experts). dots1: Huo et al. 2025. mellum:
its configuration and model card.
"""
import math

import numpy as np

from reference import (Block, Model, PROJECTIONS, TOKENS, attention, chosen, expert_mlp, experts, frequencies, gelu, head_norms, heads_of, layer_norm,
                       layer_norm_of, linear, normalised, rms, rms_norm, rotate, rotate_neighbours, router, run, silu, softmax, swiglu, write, yarn)


def xverse():
    m = Model({"architectures": ["XverseForCausalLM"], "hidden_act": "silu", "rms_norm_eps": 1e-6, "num_key_value_heads": 4})
    yield "xverse", m, 128, run(m, rms, frequencies(m, 16), swiglu)


def pangu():
    m = Model({"architectures": ["PanguEmbeddedForCausalLM"], "hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_theta": 16000000.0, "bias": True})
    yield "pangu-embedded", m, 128, run(m, rms, frequencies(m, 16), swiglu, biased="all", queries=0.1)


def maincoder():
    """Heads are normed after the rotation, whose pairs are neighbours in the checkpoint."""
    m = Model({"architectures": ["MaincoderForCausalLM"], "hidden_act": "silu", "rms_norm_eps": 1e-5, "head_dim": 24, "rope_theta": 1000000.0,
               "tie_word_embeddings": True})
    yield "maincoder", m, 128, run(m, rms, frequencies(m, 24), swiglu, turn=rotate_neighbours, turned=head_norms)


def orion():
    """The configuration calls the epsilon of LayerNorms an RMSNorm's."""
    m = Model({"architectures": ["OrionForCausalLM"], "hidden_act": "silu", "rms_norm_eps": 1e-5, "num_key_value_heads": 4})
    yield "orion", m, 128, run(m, lambda m, x, name: layer_norm_of(m, x, name, 1e-5), frequencies(m, 16), swiglu, queries=0.1)


def olmo():
    """Norms have no weights; queries, keys and values may be clipped."""
    for name, config in (("olmo", {"clip_qkv": 1.5}), ("olmo-tied", {"clip_qkv": None, "tie_word_embeddings": True})):
        m = Model({"architectures": ["OlmoForCausalLM"], "hidden_act": "silu", "num_key_value_heads": 4, **config})
        clip = m.c["clip_qkv"] or np.inf
        norm = lambda x: layer_norm(x, 1, 0, 1e-5)
        embedding = m.get("model.embed_tokens.weight", 48, 64, scale=1.0)
        x = embedding[TOKENS]
        for layer in range(3):
            p = f"model.layers.{layer}."
            q, k, v = (heads_of(np.clip(norm(x) @ m.get(f"{p}self_attn.{n}_proj.weight", 64, 64, scale=0.15).T, -clip, clip), 16) for n in "qkv")
            q, k = (rotate(t, frequencies(m, 16)) for t in (q, k))
            x = x + attention(q, k, v) @ m.get(p + "self_attn.o_proj.weight", 64, 64).T
            x = x + swiglu(m, norm(x), p + "mlp.")
        head = embedding if m.c["tie_word_embeddings"] else m.get("lm_head.weight", 48, 64)
        yield name, m, 128, norm(x) @ head.T


def starcoder():
    """Learned positions; one head of keys and values for all query heads, behind the queries in one matrix."""
    m = Model({"architectures": ["GPTBigCodeForCausalLM"], "activation_function": "gelu_pytorch_tanh", "layer_norm_epsilon": 1e-5, "n_embd": 64,
               "n_layer": 3, "n_head": 4, "n_inner": 160, "n_positions": 128, "multi_query": True, "tie_word_embeddings": True})
    for other in ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "max_position_embeddings"):
        del m.c[other]
    embedding = m.get("transformer.wte.weight", 48, 64)
    x = embedding[TOKENS] + m.get("transformer.wpe.weight", 128, 64)[:len(TOKENS)]
    for layer in range(3):
        p = f"transformer.h.{layer}."
        qkv = linear(m, layer_norm_of(m, x, p + "ln_1", 1e-5), p + "attn.c_attn", 64 + 2 * 16, scale=0.15)
        q, k, v = (heads_of(t, 16) for t in np.split(qkv, [64, 80], -1))
        x = x + linear(m, attention(q, k, v), p + "attn.c_proj", 64)
        x = x + linear(m, gelu(linear(m, layer_norm_of(m, x, p + "ln_2", 1e-5), p + "mlp.c_fc", 160)), p + "mlp.c_proj", 64)
    yield "starcoder", m, 128, layer_norm_of(m, x, "transformer.ln_f", 1e-5) @ embedding.T


def shared_experts(m, h, p, weights, width, count, names="mlp."):
    """Routed experts, and shared ones, which are one layer as wide as several."""
    p = p.replace("mlp.", names)
    y = experts(m, h, weights, [f"{p}experts.%d.{w}.weight" for w in PROJECTIONS], width)
    return y + expert_mlp(m, h, width * count, *(f"{p}shared_experts.{w}.weight" for w in PROJECTIONS))


def sigmoid_weights(m, h, p, bias, scale, used, normed=True, groups=None):
    """Ranked by score plus bias, within the groups whose two best have the largest sum; weights are scores."""
    scores = 1 / (1 + np.exp(-router(m, h, p + "gate.weight", 8)))
    rank = scores + m.get(p + bias, 8, scale=0.3)
    if groups:
        of, most = groups
        best = np.sort(rank.reshape(len(h), of, -1), -1)[..., -2:].sum(-1)
        keep = np.argsort(-best, -1)[:, :most]
        gaps = np.sort(best, -1)[:, ::-1]
        assert (gaps[:, most - 1] - gaps[:, most]).min() > 0.001
        inside = np.zeros_like(best, dtype=bool)
        np.put_along_axis(inside, keep, True, -1)
        rank = np.where(np.repeat(inside, 8 // of, -1), rank, -10)
    weights = chosen(rank, scores, used)
    return (normalised(weights) if normed else weights) * scale


def ling(m, freqs, mlp, turn=rotate, norms=False):
    """Queries, keys and values are one tensor; other names than usual."""
    hidden, dim = 64, m.head_dim
    x = m.get("model.word_embeddings.weight", 48, hidden, scale=1.0)[TOKENS]
    for layer in range(m.c["num_hidden_layers"]):
        p = f"model.layers.{layer}."
        qkv = rms(m, x, p + "input_layernorm") @ m.get(p + "attention.query_key_value.weight", 8 * dim, hidden, scale=0.2).T
        q, k, v = (heads_of(t, dim) for t in np.split(qkv, [4 * dim, 6 * dim], -1))
        if norms:
            q, k = (rms_norm(t, m.get(f"{p}attention.{n}_layernorm.weight", dim, offset=0.5), 1e-6) for t, n in ((q, "query"), (k, "key")))
        q, k = (turn(t, freqs) for t in (q, k))
        x = x + attention(q, k, v) @ m.get(p + "attention.dense.weight", hidden, 4 * dim).T
        x = x + mlp(rms(m, x, p + "post_attention_layernorm"), p + "mlp.", layer)
    head = m.get("lm_head.weight", 48, hidden)
    if m.c.get("norm_head"):
        head = head / (np.linalg.norm(head, axis=0) + 1e-7)
    return rms(m, x, "model.norm") @ head.T


def bailing():
    """Of the first models the head's columns have a length of 1, and heads are rotated whole; of the second a half is."""
    base = {"hidden_act": "silu", "rms_norm_eps": 1e-6, "num_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 32, "first_k_dense_replace": 0}
    m = Model({**base, "architectures": ["BailingMoeForCausalLM"], "head_dim": 24, "num_shared_experts": 2, "norm_topk_prob": True, "norm_head": True,
               "rope_theta": 600000.0})

    def first(h, p, layer):
        z = router(m, h, p + "gate.weight", 8)
        return shared_experts(m, h, p, normalised(chosen(z, softmax(z), 3)), 32, 2)
    yield "bailingmoe", m, 128, ling(m, frequencies(m, 24), first)
    more = {"norm_topk_prob": True, "routed_scaling_factor": 2.5, "score_function": "sigmoid", "use_qk_norm": True, "num_shared_experts": 1, "n_group": 4,
            "topk_group": 2, "rope_theta": 600000.0, "first_k_dense_replace": 1}
    for name, kind, rotated, config in (("bailingmoe2", "BailingMoeV2ForCausalLM", 8, {"partial_rotary_factor": 0.5}),
                                        ("bailingmoe2-sarvam", "SarvamMoEForCausalLM", 16, {"n_group": 1, "topk_group": 1})):
        m = Model({**base, **more, "architectures": [kind], **config})
        groups = (4, 2) if m.c["n_group"] > 1 else None

        def second(h, p, layer):
            if layer == 0:
                return swiglu(m, h, p)
            return shared_experts(m, h, p, sigmoid_weights(m, h, p, "gate.expert_bias", 2.5, 3, groups=groups), 32, 1)
        yield name, m, 128, ling(m, frequencies(m, rotated), second, norms=True)


def dots1():
    m = Model({"architectures": ["Dots1ForCausalLM"], "hidden_act": "silu", "rms_norm_eps": 1e-5, "num_key_value_heads": 4, "head_dim": 16, "n_routed_experts": 8,
               "num_experts_per_tok": 3, "moe_intermediate_size": 32, "n_shared_experts": 2, "first_k_dense_replace": 1, "norm_topk_prob": True,
               "routed_scaling_factor": 2.5, "n_group": 1, "topk_group": 1, "rope_theta": 10000000.0, "scoring_func": "noaux_tc"})

    def mlp(m, h, p):
        if ".0." in p:
            return swiglu(m, h, p)
        return shared_experts(m, h, p, sigmoid_weights(m, h, p, "gate.e_score_correction_bias", 2.5, 3), 32, 2)
    yield "dots1", m, 128, run(m, rms, frequencies(m, 16), mlp, heads=head_norms)


def mellum():
    """YaRN is of layers without a window alone; both turn by the same base."""
    kinds = ["sliding_attention"] * 3 + ["full_attention", "sliding_attention"]
    m = Model({"architectures": ["MellumForCausalLM"], "hidden_act": "silu", "rms_norm_eps": 1e-6, "num_hidden_layers": 5, "head_dim": 16, "num_experts": 8,
               "num_experts_per_tok": 3, "moe_intermediate_size": 32, "norm_topk_prob": True, "sliding_window": 6, "layer_types": kinds,
               "rope_parameters": {"full_attention": {"rope_type": "yarn", "rope_theta": 500000.0, "factor": 16.0, "original_max_position_embeddings": 16,
                                                      "beta_fast": 2.0, "beta_slow": 1.0, "attention_factor": 1.0},
                                   "sliding_attention": {"rope_type": "default", "rope_theta": 500000.0}}})

    def mlp(m, h, p):
        z = router(m, h, p + "gate.weight", 8)
        return experts(m, h, normalised(chosen(z, softmax(z), 3)), [f"{p}experts.%d.{w}.weight" for w in PROJECTIONS], 32)
    plain = 500000.0 ** (-np.arange(0, 16, 2) / 16)
    slowed, full = yarn(plain, 16, 500000.0, 16.0, 16, fast=2.0), lambda layer: kinds[layer] == "full_attention"
    yield "mellum", m, 128, run(m, rms, lambda layer: slowed if full(layer) else plain, mlp, heads=head_norms, window=lambda layer: None if full(layer) else 6)


if __name__ == "__main__":
    write((xverse, pangu, maincoder, orion, olmo, starcoder, bailing, dots1, mellum))
