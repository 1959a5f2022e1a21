"""Reference logits as reference.py writes them, of plain decoders and of decoders with experts.

    python3 reference_dense.py

Sources: the configurations and model cards of XVERSE (xverse), openPangu Embedded (pangu-embedded), Maincoder (maincoder) and Orion (orion). olmo: Groeneveld et al.
2024. starcoder: Li et al. 2023. bailingmoe: Ling team 2025 and its published code (norms of the head's columns, groups of experts). dots1: Huo et al. 2025. mellum:
its configuration and model card. phimoe: Abdin et al. 2024, but for the norms, which files take for RMSNorms with biases. granite_swa: IBM's configurations. plamo3: Preferred
Networks 2025 and its configuration. spark2_5, maple: their configurations and model cards.
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


def biased_rms(m, x, name):
    return rms(m, x, name) + m.get(name + ".bias", m.c["hidden_size"])


def softmax_mlp(m, h, p, names, used):
    z = router(m, h, p + "gate.weight", 8)
    return experts(m, h, normalised(chosen(z, softmax(z), used)), names, m.c.get("moe_intermediate_size", m.c["intermediate_size"]))


def phimoe():
    """RMSNorms with biases, and the two best experts, where the published model has LayerNorms and chooses the second among those that are left."""
    base = {"architectures": ["PhiMoEForCausalLM"], "hidden_act": "silu", "rms_norm_eps": 1e-5, "num_local_experts": 8, "num_experts_per_tok": 2, "attention_bias": True,
            "lm_head_bias": True, "original_max_position_embeddings": 64}
    for name, context in (("phimoe-short", 64), ("phimoe-long", 65)):
        factors = {"short_factor": [1 + 0.125 * i for i in range(8)], "long_factor": [1 + 0.75 * i for i in range(8)]}
        m = Model({**base, "rope_scaling": {"type": "longrope", "short_mscale": 1.25, "long_mscale": 1.25, "original_max_position_embeddings": 64, **factors}})

        def mlp(m, h, p):
            p = p.replace("mlp.", "block_sparse_moe.")
            return softmax_mlp(m, h, p, [f"{p}experts.%d.{w}.weight" for w in ("w1", "w3", "w2")], 2)
        freqs = frequencies(m, 16) / np.array(factors["long_factor" if context > 64 else "short_factor"])
        logits = run(m, biased_rms, freqs, mlp, magnitude=1.25, biased="all", queries=0.1)
        yield name, m, context, logits + m.get("lm_head.bias", 48)


def granite_swa():
    """A sink in each head, windows in all but every fourth layer from the first on, layers whose heads are not rotated; experts with a shared one, whose gates and ups are one
    tensor."""
    base = {"hidden_act": "silu", "rms_norm_eps": 1e-5, "num_hidden_layers": 5, "embedding_multiplier": 6.0, "attention_multiplier": 0.125, "residual_multiplier": 0.35,
            "logits_scaling": 4.0, "sliding_window": 6}

    def halves(h, both, out):
        gate, up = np.split(h @ both.T, 2, -1)
        return silu(gate) * up @ out.T

    def mlp(m, h, p):
        p = p.replace("mlp.", "")
        z = router(m, h, p + "block_sparse_moe.router.layer.weight", 8)
        weights = normalised(chosen(z, softmax(z), 3))
        into, out = m.get(p + "block_sparse_moe.experts.gate_up_proj", 8, 64, 64), m.get(p + "block_sparse_moe.experts.down_proj", 8, 64, 32)
        y = sum(weights[:, e:e + 1] * halves(h, into[e], out[e]) for e in range(8))
        return y + halves(h, m.get(p + "shared_mlp.input_linear.weight", 96, 64), m.get(p + "shared_mlp.output_linear.weight", 64, 48))
    for name, config, of in (("granite_swa", {"architectures": ["GraniteSWAForCausalLM"], "no_rope_layers": [0, 1, 1, 0, 1]}, swiglu),
                             ("granite_swa-moe", {"architectures": ["GraniteMoeSWAForCausalLM"], "num_local_experts": 8, "num_experts_per_tok": 3, "intermediate_size": 32,
                                                  "shared_intermediate_size": 48, "layer_types": ["sliding_attention", "full_attention"] * 2 + ["sliding_attention"]}, mlp)):
        m = Model({**base, **config})
        full = [i % 4 == 0 for i in range(5)] if name == "granite_swa" else [i % 2 == 1 for i in range(5)]
        turned = m.c.get("no_rope_layers", [1] * 5)
        every = frequencies(m, 16)
        yield name, m, 128, run(m, rms, lambda layer: every if turned[layer] else None, of, embedding=6.0, scale=0.125, residual=0.35, logits=4.0,
                                window=lambda layer: None if full[layer] else 6, sinks=lambda m, p: m.get(p + "self_attn.sinks", 4, scale=1.0))


def plamo3():
    """Norms' weights are stored less 1, those behind attention less 1/5, and those behind the feed-forward layer less 1/5^1.5."""
    m = Model({"architectures": ["Plamo3ForCausalLM"], "hidden_act": "silu", "rms_norm_eps": 1e-6, "num_hidden_layers": 9, "head_dim": 24, "window_size": 6,
               "sliding_window_pattern": 8, "rope_theta": 1000000.0, "rope_local_theta": 5000.0, "tie_word_embeddings": True})
    norm = lambda x, name, plus, n=64: rms_norm(x, m.get(name + ".weight", n) + plus, 1e-6)
    embedding = m.get("model.embed_tokens.weight", 48, 64, scale=1.0)
    x = embedding[TOKENS]
    for layer in range(9):
        p, full = f"model.layers.layers.{layer}.", layer == 7
        freqs = (1000000.0 if full else 5000.0) ** (-np.arange(0, 24, 2) / 24)
        qkv = norm(x, p + "pre_mixer_norm", 1) @ m.get(p + "mixer.qkv_proj.weight", 8 * 24, 64, scale=0.2).T
        q, k, v = (heads_of(t, 24) for t in np.split(qkv, [96, 144], -1))
        q, k = (rotate(norm(t, f"{p}mixer.{n}_norm", 1, 24), freqs) for t, n in ((q, "q"), (k, "k")))
        y = attention(q, k, v, None if full else 6) @ m.get(p + "mixer.o_proj.weight", 64, 96).T
        x = x + norm(y, p + "post_mixer_norm", 1 / 5)
        gate, up = np.split(norm(x, p + "pre_mlp_norm", 1) @ m.get(p + "mlp.gate_up_proj.weight", 192, 64).T, 2, -1)
        x = x + norm(silu(gate) * up @ m.get(p + "mlp.down_proj.weight", 64, 96).T, p + "post_mlp_norm", 5**-1.5)
    yield "plamo3", m, 128, norm(x, "model.norm", 1) @ embedding.T


def spark():
    """A gate's sigmoid multiplies what each head reads; layers with windows rotate another part of a head by another base."""
    kinds = ["sliding_attention"] * 3 + ["full_attention", "sliding_attention"]
    m = Model({"architectures": ["Spark2_5ForCausalLM"], "hidden_act": "gelu", "rms_norm_eps": 1e-6, "num_hidden_layers": 5, "head_dim": 16, "sliding_window": 6,
               "layer_types": kinds, "gate_attn_act_mode": "sigmoid", "headwise_attn_output_gate": True, "tie_word_embeddings": True,
               "rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 1000000.0, "partial_rotary_factor": 1.0},
                                   "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}}})
    embedding = m.get("model.embed_tokens.weight", 48, 64, scale=1.0)
    x = embedding[TOKENS]
    for layer, kind in enumerate(kinds):
        p, full = f"model.layers.{layer}.", kind == "full_attention"
        freqs = 1000000.0 ** (-np.arange(0, 16, 2) / 16) if full else 10000.0 ** (-np.arange(0, 8, 2) / 8)
        h = rms(m, x, p + "input_layernorm")
        q, k, v = (heads_of(t, 16) for t in np.split(h @ m.get(p + "self_attn.q_k_v_proj.weight", 128, 64, scale=0.2).T, [64, 96], -1))
        q, k = rotate(q, freqs), rotate(k, freqs)
        gate = 1 / (1 + np.exp(-h @ m.get(p + "self_attn.g_proj.weight", 4, 64).T))
        y = heads_of(attention(q, k, v, None if full else 6), 16) * gate[:, :, None]
        x = x + y.reshape(len(x), 64) @ m.get(p + "self_attn.o_proj.weight", 64, 64).T
        h = rms(m, x, p + "post_attention_layernorm")
        gate, up = (h @ m.get(f"{p}mlp.{n}_proj.weight", 96, 64).T for n in ("gate", "up"))
        x = x + gelu(gate) * up @ m.get(p + "mlp.down_proj.weight", 64, 96).T
    yield "spark2_5", m, 128, rms(m, x, "model.norm") @ embedding.T


def maple():
    """Gates of experts are at most 7, and ups within 7; layers without a window are not rotated."""
    kinds = ["sliding_attention", "full_attention"] * 2 + ["sliding_attention"]
    m = Model({"architectures": ["MapleForCausalLM"], "hidden_act": "silu", "rms_norm_eps": 1e-6, "num_hidden_layers": 5, "head_dim": 16, "num_experts": 8,
               "num_experts_per_tok": 3, "moe_intermediate_size": 32, "norm_topk_prob": True, "nope_on_global_attention": True, "sliding_window": 6, "layer_types": kinds,
               "partial_rotary_factor": 0.5, "rope_theta": 100000.0})

    def mlp(m, h, p):
        z = router(m, h, p + "gate.weight", 8)
        weights = normalised(chosen(z, softmax(z), 3))
        y = 0
        for e in range(8):
            gate, up, down = (m.get(f"{p}experts.{e}.{w}.weight", *s, scale=r) for w, r, s in
                              zip(PROJECTIONS, (0.6, 0.6, 0.05), ((32, 64), (32, 64), (64, 32))))
            y = y + weights[:, e:e + 1] * (silu(np.minimum(h @ gate.T, 7)) * np.clip(h @ up.T, -7, 7) @ down.T)
        return y
    freqs = 100000.0 ** (-np.arange(0, 8, 2) / 8)
    of = lambda layer: kinds[layer] == "sliding_attention"
    yield "maple", m, 128, run(m, rms, lambda layer: freqs if of(layer) else None, mlp, heads=head_norms, window=lambda layer: 6 if of(layer) else None)


if __name__ == "__main__":
    write((xverse, pangu, maincoder, orion, olmo, starcoder, bailing, dots1, mellum, phimoe, granite_swa, plamo3, spark, maple))
