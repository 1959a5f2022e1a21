"""As reference.py, of Qwen3.8-Flash-Next (qwen4exp), Apertus, Step 3.5 and others.

    python3 reference_folders.py

Sources: qwen4exp: the configuration and model card of Qwen3.8-Flash-Next; Yang, Kautz and Hatamizadeh 2024 (Gated Delta Networks); Zhu et al. 2024
(Hyper-Connections). apertus: Swiss AI Initiative 2025; Huang and Schlag 2025 (xIELU). nanbeige: the configuration and model card of Nanbeige4.2-3B.
openelm: Mehta et al. 2024. muse-glimmer, step35: their configurations and model cards. bitnet: Ma et al. 2024 and 2025. deci: Bercovich et al. 2024 and
the configurations of Llama-Nemotron.
"""
import math

import numpy as np

from reference import (TOKENS, Model, attention, chosen, frequencies, head_norms, heads_of, normalised, relu2, rms, rms_norm, rotate, router, run, silu, softmax,
                       swiglu, write)
from reference_indexer import best, see


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def integers(m, name, values):
    """Whole numbers of 64 bits."""
    m.tensors[name] = {"shape": [len(values)], "scale": 0, "offset": 0, "dtype": "I64", "values": values}
    return values


def convolved(x, taps, apart=1):
    """Each column of x alone over positions that are so far apart, the last tap on its own position."""
    k = taps.shape[-1]
    padded = np.concatenate([np.zeros(((k - 1) * apart, x.shape[-1])), x])
    return sum(padded[i * apart:i * apart + len(x)] * taps[:, i] for i in range(k))


def qwen4exp():
    """The residual is several streams, which every part reads through gates of low rank and writes by weights. Attention sees the blocks of positions
    that an indexer chooses and the open one. One layer adds rows of a table, which hashes of the last tokens choose, as each stream's query matches
    their key. All norms but those of delta nets store their weights less 1."""
    hidden, streams, rank, groups, heads, dim = 64, 4, 24, 2, 4, 16
    wide, keys, inner = streams * hidden, groups * dim, heads * dim
    for name, block in (("qwen4exp", 4), ("qwen4exp-plain", 4)):
        with_table = name == "qwen4exp"
        m = Model({"hidden_act": "silu", "rms_norm_eps": 1e-6, "head_dim": 32, "num_attention_heads": 2, "num_key_value_heads": 1, "num_hidden_layers": 4,
                   "linear_conv_kernel_dim": 4, "linear_key_head_dim": dim, "linear_value_head_dim": dim, "linear_num_key_heads": groups,
                   "linear_num_value_heads": heads, "full_attention_interval": 2, "layer_types": ["linear_attention", "full_attention"] * 2,
                   "attn_output_gate": True, "num_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 32, "intermediate_size": 0,
                   "shared_expert_intermediate_size": 48, "hc_count": streams, "hc_lowrank": rank, "indexer_n_heads": 3, "indexer_head_dim": 24,
                   "indexer_budget": 2 * block, "indexer_compress_ratio": block, "ple_layer_ids": [3] if with_table else [], "ngram_size": 3,
                   "heads_per_ngram": 2, "ple_conv_kernel_size": 4, "split_ngram_parts": 3, "eos_token_id": [40, 11],
                   "rope_parameters": {"rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.5, "mrope_section": [4, 2, 2],
                                       "mrope_interleaved": True}})
        root = "model.language_model." if with_table else "model."
        if with_table:
            m.folder = {"architectures": ["Qwen4ExpForConditionalGeneration"], "tie_word_embeddings": False, "text_config": m.c,
                        "vision_config": {"hidden_size": 8}}
            m.get("model.visual.patch_embed.proj.weight", 8, 12)
            m.get("mtp.fc.weight", hidden, 2 * hidden)
        else:
            m.c["architectures"] = ["Qwen4ExpForCausalLM"]
        n, freqs = len(TOKENS), 1e7 ** (-np.arange(0, 16, 2) / 16)
        lin = lambda x, name, out, scale=0.25: x @ m.get(name + ".weight", out, x.shape[-1], scale=scale).T
        norm = lambda x, name, width: rms_norm(x, 1 + m.get(name + ".weight", width), 1e-6)

        def streams_norm(x, name):
            return rms_norm(x, 1 + m.get(name + ".weight", wide).reshape(streams, hidden), 1e-6)

        def read(x, p):
            """What a part reads of the streams [n, streams, hidden], and the streams' norms."""
            normed = streams_norm(x, p + "hc_norm").reshape(n, wide)
            low = silu(lin(normed, p + "input_mix_weight_down", rank) / streams)
            gates = sigmoid(lin(low, p + "input_mix_weight_up", wide))
            return (normed * gates).reshape(n, streams, hidden).mean(1), normed

        def add(x, normed, p, y):
            return x + (2 * sigmoid(lin(normed, p + "block_inject_weight", streams) / streams))[..., None] * y[:, None]

        def net(h, p):
            mixed = lin(h, p + "in_proj_qkv", 2 * keys + inner)
            z = lin(h, p + "in_proj_z", inner).reshape(n, heads, dim)
            b, a = (lin(h, p + "in_proj_" + s, heads) for s in "ba")
            mixed = silu(convolved(mixed, m.get(p + "conv1d.weight", 2 * keys + inner, 1, 4, scale=0.5)[:, 0]))
            q, k, v = (t.reshape(n, -1, dim) for t in np.split(mixed, [keys, 2 * keys], -1))
            q, k = (np.repeat(t / np.sqrt((t * t).sum(-1, keepdims=True) + 1e-6), heads // groups, 1) for t in (q, k))
            decay = np.exp(-np.exp(m.get(p + "A_log", heads, scale=1.0)) * np.log1p(np.exp(a + m.get(p + "dt_bias", heads, scale=1.0, offset=-1.0))))
            state, y = np.zeros((heads, dim, dim)), np.zeros((n, heads, dim))
            for t in range(n):
                state = state * decay[t][:, None, None]
                known = np.einsum("hkv,hk->hv", state, k[t])
                state = state + np.einsum("hk,hv->hkv", k[t], (v[t] - known) * sigmoid(b[t])[:, None])
                y[t] = np.einsum("hkv,hk->hv", state, q[t]) / math.sqrt(dim)
            y = rms_norm(y, m.get(p + "norm.weight", dim, offset=1.0), 1e-6) * sigmoid(z)
            return lin(y.reshape(n, inner), p + "out_proj", hidden)

        def attend(h, p):
            q, gate = np.split(heads_of(lin(h, p + "q_proj", 2 * 64), 64), 2, -1)
            k, v = (heads_of(lin(h, f"{p}{s}_proj", 32), 32) for s in "kv")
            q, k = (rotate(norm(t, f"{p}{s}_norm", 32), freqs) for t, s in ((q, "q"), (k, "k")))
            index_q, index_k = np.split(lin(h, p + "indexer.index_qk_proj", 4 * 24), [3 * 24], -1)
            index_q = rotate(norm(heads_of(index_q, 24), p + "indexer.q_layernorm", 24), freqs)
            blocks = norm(index_k.reshape(n // block, block, 24).mean(1), p + "indexer.k_layernorm", 24)
            first = np.zeros((n, 1, 24))
            first[::block, 0] = blocks  # a block's key turns as its first position does
            scores = np.maximum(np.einsum("qhd,bd->qhb", index_q, rotate(first, freqs)[::block, 0]), 0).sum(1)
            seen = np.zeros((n, n), bool)
            for t in range(n):
                closed = (t + 1) // block
                seen[t, closed * block:t + 1] = True
                if closed:
                    row = np.zeros((closed, closed))
                    row[-1] = scores[t, :closed]
                    for at in np.flatnonzero(best(row, 2)[-1]):
                        seen[t, at * block:(at + 1) * block] = True
            y = see(q, np.repeat(k, 2, 1), np.repeat(v, 2, 1), seen[:, None], 1 / math.sqrt(32))
            return lin(y * sigmoid(gate.reshape(n, -1)), p + "o_proj", hidden)

        def mix(h, p):
            scores = softmax(router(m, h, p + "gate.weight", 8))
            weights = normalised(chosen(np.log(scores), scores, 3))
            both, down = m.get(p + "experts.gate_up_proj", 8, 64, hidden), m.get(p + "experts.down_proj", 8, hidden, 32)
            y = sum(weights[:, e:e + 1] * (silu(h @ both[e, :32].T) * (h @ both[e, 32:].T) @ down[e].T) for e in range(8))
            shared = lin(silu(lin(h, p + "shared_expert.gate_proj", 48)) * lin(h, p + "shared_expert.up_proj", 48), p + "shared_expert.down_proj", hidden)
            return y + shared * sigmoid(lin(h, p + "shared_expert_gate", 1))

        def grams(x, p):
            """What the streams take of the table, whose rows are those of two heads for pairs of tokens and for triples."""
            at = p + "ple_embedding."
            factors = integers(m, at + "layer_multipliers", [0x1B8735 << 24 | 0x93CC9F, 0x0E6546 << 24 | 0xB65C35, 0x19D699 << 24 | 0xA58EAD])
            rows = integers(m, at + "ngram_heads_vocab_sizes", [61, 67, 71, 73])
            first = integers(m, at + "ngram_heads_offsets", [0, 61, 128, 199])
            table = np.concatenate([m.get(f"{at}ngram_embedding.shard_{i}.weight", k, 16, scale=1.0) for i, k in enumerate((100, 100, 72))])
            found = []
            for t in range(n):
                gram, cut = [TOKENS[t]], False
                for back in (1, 2):
                    cut = cut or t < back or TOKENS[t - back] == 11
                    gram.append(11 if cut else TOKENS[t - back])
                mixed, row = gram[0] * factors[0] % 2**64, []
                for k in (1, 2):
                    mixed ^= gram[k] * factors[k] % 2**64
                    row += [table[mixed % rows[i] + first[i]] for i in (2 * k - 2, 2 * k - 1)]
                found.append(np.concatenate(row))
            found = np.array(found)
            key, value = lin(found, p + "key_proj", wide).reshape(n, streams, hidden), lin(found, p + "value_proj", hidden)
            match = (streams_norm(key, p + "norm_key") * streams_norm(x, p + "norm_query")).sum(-1) / math.sqrt(hidden)
            taken = sigmoid(np.sign(match) * np.sqrt(np.maximum(np.abs(match), 1e-6)))[..., None] * value[:, None]
            taps = m.get(p + "conv1d.weight", wide, 1, 4)[:, 0]
            return x + taken + silu(convolved(streams_norm(taken, p + "norm_conv").reshape(n, wide), taps, 3)).reshape(n, streams, hidden)

        x = np.repeat(m.get(root + "embed_tokens.weight", 48, hidden, scale=1.0)[TOKENS][:, None], streams, 1)
        for l in range(4):
            p = f"{root}layers.{l}."
            if with_table and l == 2:
                x = grams(x, p + "ple.")
            h, normed = read(x, p + "attn_hyper_connection.")
            x = add(x, normed, p + "attn_hyper_connection.", attend(h, p + "self_attn.") if l % 2 else net(h, p + "linear_attn."))
            h, normed = read(x, p + "mlp_hyper_connection.")
            x = add(x, normed, p + "mlp_hyper_connection.", mix(h, p + "mlp."))
        h, _ = read(x, root + "hyper_connection_mixer.")
        yield name, m, 128, h @ m.get("lm_head.weight", 48, hidden).T


def apertus():
    """xIELU: p·x² + b·x above 0, else n·(expm1(min(x, e)) − x) + b·x, with p = softplus(alpha_p) and n = b + softplus(alpha_n)."""
    def mlp(m, h, p):
        x = h @ m.get(p + "up_proj.weight", 96, 64).T
        above, below = (np.log1p(np.exp(m.get(f"{p}act_fn.alpha_{s}", 1, scale=0.5))) for s in "pn")
        beta, eps = m.get(p + "act_fn.beta", offset=0.5, scale=0.1), m.get(p + "act_fn.eps", offset=-1e-6, scale=0.0)
        y = np.where(x > 0, above * x * x, (np.expm1(np.minimum(x, eps)) - x) * (beta + below)) + beta * x
        return y @ m.get(p + "down_proj.weight", 64, 96, scale=0.125).T
    m = Model({"architectures": ["ApertusForCausalLM"], "hidden_act": "xielu", "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "qk_norm": True})
    yield "apertus", m, 128, run(m, rms, frequencies(m, 16), mlp, before=("attention_layernorm", "feedforward_layernorm"), heads=head_norms)


def parts(m, x, layer, linear, sub, mlp):
    """x with what a layer of Llama's form adds. linear is a product with weights; sub norms what the last products read."""
    c, p = m.c, f"model.layers.{layer}."
    heads, kv, dim = c["num_attention_heads"], c["num_key_value_heads"], m.head_dim
    h, freqs = rms(m, x, p + "input_layernorm"), frequencies(m, dim)
    q, k, v = (heads_of(linear(h, f"{p}self_attn.{n}_proj", w * dim), dim) for n, w in (("q", heads), ("k", kv), ("v", kv)))
    x = x + linear(sub(attention(rotate(q, freqs), rotate(k, freqs), v), p + "self_attn.attn_sub_norm"), p + "self_attn.o_proj", 64)
    return x + mlp(rms(m, x, p + "post_attention_layernorm"), p + "mlp.")


def nanbeige():
    """Tokens go through the layers several times, each time with keys and values of their own; the last norm is between the times, too, unless the
    configuration says otherwise."""
    for name, loops, skips in (("nanbeige", 2, False), ("nanbeige-skip", 3, True)):
        m = Model({"architectures": ["NanbeigeForCausalLM"], "hidden_act": "silu", "rms_norm_eps": 1e-5, "num_loops": loops, "skip_loop_final_norm": skips,
                   "num_hidden_layers": 2})
        x = m.get("model.embed_tokens.weight", 48, 64, scale=1.0)[TOKENS]
        for time in range(loops):
            if time and not skips:
                x = rms(m, x, "model.norm")
            for layer in range(2):
                x = parts(m, x, layer, lambda h, p, n: h @ m.get(p + ".weight", n, h.shape[-1], scale=0.15).T, lambda h, p: h, lambda h, p: swiglu(m, h, p))
        yield name, m, 128, rms(m, x, "model.norm") @ m.get("lm_head.weight", 48, 64).T


def bitnet():
    """Every weight of a product becomes -1, 0 or 1, whichever is next, times the mean magnitude of its matrix. Activations are not rounded."""
    for name, act, of in (("bitnet", "relu2", relu2), ("bitnet-silu", "silu", silu)):
        m = Model({"architectures": ["BitNetForCausalLM"], "hidden_act": act, "rms_norm_eps": 1e-5, "tie_word_embeddings": True})

        def linear(h, p, n):
            w = m.get(p + ".weight", n, h.shape[-1])
            mean = np.abs(w).mean()
            return h @ (np.clip(np.round(w / mean), -1, 1) * mean).T

        def sub(h, p):
            return rms_norm(h, m.get(p + ".weight", h.shape[-1], offset=1.0), 1e-5)

        def mlp(h, p):
            return linear(sub(of(linear(h, p + "gate_proj", 96)) * linear(h, p + "up_proj", 96), p + "ffn_sub_norm"), p + "down_proj", 64)

        table = m.get("model.embed_tokens.weight", 48, 64, scale=1.0)
        x = table[TOKENS]
        for layer in range(3):
            x = parts(m, x, layer, linear, sub, mlp)
        yield name, m, 128, rms(m, x, "model.norm") @ table.T


def muse_glimmer():
    """Embeddings, queries and keys are normed without weights, and queries have a factor. A gate's sigmoid multiplies each element that heads read. Only
    layers with windows are rotated. The norms after parts have an epsilon of their own, and all norms of layers store their weights less 1."""
    kinds, layers = ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"], 4
    m = Model({"hidden_act": "silu", "rms_norm_eps": 1e-5, "head_dim": 24, "num_hidden_layers": layers, "sliding_window": 6, "layer_types": kinds,
               "qk_scale_factor": 1.2, "output_multiplier": 0.4, "final_logit_softcapping": 6.0, "rope_theta": 500000.0})
    m.folder = {"architectures": ["MuseGlimmerForConditionalGeneration"], "tie_word_embeddings": False, "text_config": m.c, "vision_config": {"hidden_size": 8}}
    m.get("model.vision_tower.patch_embedder.patch_embedding.weight", 8, 12)
    root, freqs = "model.language_model.", 500000.0 ** (-np.arange(0, 24, 2) / 24)
    lin = lambda x, name, out: x @ m.get(name + ".weight", out, x.shape[-1]).T
    norm = lambda x, name, eps=1e-5: rms_norm(x, 1 + m.get(name + ".weight", 64), eps)
    x = rms_norm(m.get(root + "embed_tokens.weight", 48, 64, scale=1.0)[TOKENS], 1, 1e-5)
    for l in range(layers):
        p, window = f"{root}layers.{l}.", kinds[l] == "sliding_attention"
        h, a = norm(x, p + "input_layernorm"), p + "self_attn."
        q, k, v = (heads_of(lin(h, f"{a}{n}_proj", w * 24), 24) for n, w in (("q", 4), ("k", 2), ("v", 2)))
        q, k = rms_norm(q, 1.2, 1e-5), rms_norm(k, 1, 1e-5)
        if window:
            q, k = rotate(q, freqs), rotate(k, freqs)
        y = attention(q, k, v, 6 if window else None) * sigmoid(lin(h, a + "gate_proj", 96))
        x = x + norm(lin(y, a + "o_proj", 64), p + "post_attention_layernorm", 1e-8)
        h = norm(x, p + "pre_feedforward_layernorm")
        x = x + norm(swiglu(m, h, p + "mlp."), p + "post_feedforward_layernorm", 1e-8)
    x = rms_norm(x, m.get(root + "norm.weight", 64, offset=1.0), 1e-5)
    yield "muse-glimmer", m, 128, 6 * np.tanh(x @ m.get("lm_head.weight", 48, 64).T * 0.4 / 6)


def openelm():
    """Layers differ in their heads and neurons, which are multiples of a divisor, by no more than a tenth less than a multiple of the width."""
    heads, kv = [4, 6, 8], [2, 2, 4]
    m = Model({"architectures": ["OpenELMForCausalLM"], "activation_fn_name": "swish", "model_dim": 64, "num_transformer_layers": 3, "head_dim": 16,
               "max_context_length": 128, "num_query_heads": heads, "num_kv_heads": kv, "ffn_multipliers": [0.5, 1.2, 2.0], "ffn_dim_divisor": 32,
               "ffn_with_glu": True, "normalize_qk_projections": True, "share_input_output_layers": True, "rope_freq_constant": 20000})
    for key in ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "max_position_embeddings",
                "tie_word_embeddings"):
        del m.c[key]
    norm = lambda x, name, n: rms_norm(x, m.get(name + ".weight", n, offset=1.0), 1e-6)
    lin = lambda x, name, out: x @ m.get(name + ".weight", out, x.shape[-1]).T
    table, freqs = m.get("transformer.token_embeddings.weight", 48, 64, scale=1.0), 20000.0 ** (-np.arange(0, 16, 2) / 16)
    x = table[TOKENS]
    for l, width in enumerate((32, 96, 128)):
        p = f"transformer.layers.{l}."
        qkv = heads_of(lin(norm(x, p + "attn_norm", 64), p + "attn.qkv_proj", (heads[l] + 2 * kv[l]) * 16), 16)
        q, k, v = np.split(qkv, [heads[l], heads[l] + kv[l]], 1)
        q, k = (rotate(norm(t, f"{p}attn.{n}_norm", 16), freqs) for n, t in (("q", q), ("k", k)))
        x = x + lin(attention(q, k, v), p + "attn.out_proj", 64)
        gate, up = np.split(lin(norm(x, p + "ffn_norm", 64), p + "ffn.proj_1", 2 * width), 2, -1)
        x = x + lin(silu(gate) * up, p + "ffn.proj_2", 64)
    yield "openelm", m, 128, norm(x, "transformer.norm", 64) @ table.T


def parts():
    """Text models of families that folders of models of pictures have as parts."""
    usual = {"hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 1000000.0}
    m = Model({"architectures": ["Qwen2ForCausalLM"], **usual})
    m.folder = {"architectures": ["InternVLChatModel"], "llm_config": m.c, "vision_config": {"hidden_size": 8}, "downsample_ratio": 0.5}
    logits = run(m, rms, frequencies(m, 16), swiglu, biased=True, queries=0.1, root="language_model.model.", head="language_model.lm_head.weight")
    m.get("vision_model.embeddings.class_embedding", 1, 1, 8)
    m.get("mlp1.1.weight", 64, 32)
    yield "internvl", m, 128, logits
    m = Model({"model_type": "mistral", "head_dim": 24, **usual})
    m.folder = {"architectures": ["LlavaForConditionalGeneration"], "text_config": m.c, "vision_config": {"hidden_size": 8, "model_type": "pixtral"}, "model_type": "llava"}
    logits = run(m, rms, frequencies(m, 24), swiglu, root="model.language_model.")
    m.get("model.vision_tower.patch_conv.weight", 8, 3, 2, 2)
    yield "pixtral", m, 128, logits


if __name__ == "__main__":
    write((parts, qwen4exp, apertus, nanbeige, bitnet, muse_glimmer, openelm))
