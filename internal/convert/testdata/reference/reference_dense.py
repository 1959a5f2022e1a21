"""Reference logits as reference.py writes them, of plain decoders and of decoders with experts.

    python3 reference_dense.py

Sources: the configurations and model cards of XVERSE (xverse), openPangu Embedded (pangu-embedded), Maincoder (maincoder) and Orion (orion). olmo: Groeneveld et al.
2024. starcoder: Li et al. 2023.
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


if __name__ == "__main__":
    write((xverse, pangu, maincoder, orion, olmo, starcoder))
