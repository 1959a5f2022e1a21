"""Reference logits as reference.py writes them, of folders whose names and forms are the makers' own.

    python3 reference_published.py

Sources: transformers' glm4v_moe (GLM 4.5V and 4.6V), glm_ocr and solar_open. step35: StepFun 2026 (Step 3.5 Flash)
and its configuration. mimo2-fused: Xiaomi 2026 (MiMo-V2-Flash) and vLLM's notes on the layout of MiMo-V2.5.
deepseek2-yarn: DeepSeek-AI 2024 (the code of DeepSeek-V2 and V3), transformers' deepseek_v3.
grovemoe: Wu et al. 2025 (Grove MoE) and its published code. deci: Bercovich et al. 2024 (Puzzle), the
configurations of Llama-Nemotron Super and Ultra. dots3note: rednote-hilab 2026 (dots.3 Note) and its configuration. deepseek2-ocr: DeepSeek-AI 2025 (DeepSeek-OCR),
the code of DeepSeek-V2 without latent attention.
"""
import numpy as np

from reference import (attention, chosen, deepseek_experts, expert_mlp, experts, frequencies, gated, head_norms, heads_of, latent_decoder, linear, Model, normalised, PROJECTIONS, rms, rms_norm, rotate, rotate_neighbours, router, run, silu,
                       softmax, swiglu, TOKENS, write, yarn)
from reference_experts import scored, sigmoid
from reference_indexer import index, see


def glm_pictures():
    """Text has the same position in every section, which is plain rotation: of halves where there are experts, else of neighbours."""
    m = Model({"model_type": "glm4v_moe_text", "hidden_act": "silu", "rms_norm_eps": 1e-5, "head_dim": 24, "attention_bias": True, "moe_intermediate_size": 32,
               "n_routed_experts": 8, "n_shared_experts": 1, "num_experts_per_tok": 3, "first_k_dense_replace": 1, "norm_topk_prob": True,
               "routed_scaling_factor": 1.5, "n_group": 1, "topk_group": 1, "partial_rotary_factor": 0.5, "rope_theta": 10000.0,
               "rope_scaling": {"rope_type": "default", "mrope_section": [2, 2, 2]}})
    m.folder = {"architectures": ["Glm4vMoeForConditionalGeneration"], "text_config": m.c, "tie_word_embeddings": False, "vision_config": {"hidden_size": 8}}
    logits = run(m, rms, frequencies(m, 12), lambda m, h, p: swiglu(m, h, p) if ".0." in p else scored(m, h, p, scale=1.5), biased=True, queries=0.1,
                 root="model.language_model.")
    m.get("model.visual.patch_embed.proj.weight", 8, 12)
    yield "glm4v-moe", m, 128, logits

    m = Model({"model_type": "glm_ocr_text", "hidden_act": "silu", "rms_norm_eps": 1e-5, "head_dim": 24, "num_nextn_predict_layers": 1,
               "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [4, 4, 4], "partial_rotary_factor": 1.0}})
    m.folder = {"architectures": ["GlmOcrForConditionalGeneration"], "text_config": m.c, "tie_word_embeddings": False, "vision_config": {"hidden_size": 8}}
    root = "model.language_model."
    logits = run(m, rms, frequencies(m, 24), gated, queries=0.1, turn=rotate_neighbours, root=root,
                 before=("input_layernorm", "post_attention_layernorm"), after=("post_self_attn_layernorm", "post_mlp_layernorm"))
    m.get("model.visual.patch_embed.proj.weight", 8, 12)
    for name in [n for n in m.tensors if n.startswith(root + "layers.2.")]:  # a layer behind the last, of which no logit depends
        m.get(name.replace("layers.2.", "layers.3."), *m.tensors[name]["shape"])
    for part, shape in (("eh_proj", (64, 128)), ("enorm", (64,)), ("hnorm", (64,)), ("embed_tokens", (48, 64)), ("shared_head.norm", (64,)), ("shared_head.head", (48, 64))):
        m.get(f"{root}layers.3.{part}.weight", *shape)
    yield "glm-ocr", m, 128, logits


def apart(of):
    """What of returns for the first magnitude of biases by which no choice of experts hangs on rounding."""
    for biases in range(10, 60):
        try:
            return of(biases / 100)
        except AssertionError:
            continue
    raise AssertionError


def solar():
    """Heads are rotated whole, and all layers have experts."""
    def of(biases):
        m = Model({"architectures": ["SolarOpenForCausalLM"], "hidden_act": "silu", "rms_norm_eps": 1e-5, "head_dim": 24, "moe_intermediate_size": 32,
                   "n_routed_experts": 8, "n_shared_experts": 1, "num_experts_per_tok": 3, "norm_topk_prob": True, "routed_scaling_factor": 1.0, "n_group": 1,
                   "topk_group": 1, "rope_theta": 1000000.0})
        del m.c["intermediate_size"]
        return m, run(m, rms, frequencies(m, 24), lambda m, h, p: scored(m, h, p, biases=biases), queries=0.1)
    m, logits = apart(of)
    yield "solar-open", m, 128, logits


def behind(m, layer, to, more, root="model."):
    """A layer behind the last, of which no logit depends: as that layer, with more parts."""
    for name in [n for n in m.tensors if n.startswith(f"{root}layers.{layer}.")]:
        m.get(name.replace(f"{root}layers.{layer}.", to), *m.tensors[name]["shape"])
    for part, shape in more.items():
        m.get(to + part + ".weight", *shape)


FURTHER = {"eh_proj": (64, 128), "enorm": (64,), "hnorm": (64,)}


def llama3(freqs, factor, low, high, original):
    """Long waves are slowed by factor, short ones are not, those between are blended."""
    wave = 2 * np.pi / freqs
    blend = np.clip((original / wave - low) / (high - low), 0, 1)
    return (1 - blend) * freqs / factor + blend * freqs


def step35():
    """Layers with windows have heads and a base of their own, and rotate whole heads; the others rotate half of each, with Llama 3's factors. All norms
    store their weights less 1. Limits of a layer's neurons are behind the gate's SiLU."""
    kinds = [k + "_attention" for k in ("full", "sliding", "sliding", "sliding", "full", "sliding")]
    more = ["sliding_attention", "full_attention"]
    routed, others = [0, 0, 0, 0.3, 0.4, None, None, None], [0, 0.5, 0, 0, 0.3, 0, 0, 0]
    def of(biases):
        m = Model({"architectures": ["Step3p5ForCausalLM"], "rms_norm_eps": 1e-5, "head_dim": 16, "num_hidden_layers": 6, "num_attention_groups": 2, "layer_types": kinds + more,
                   "attention_other_setting": {"attention_type": "sliding_attention", "num_attention_heads": 6, "num_attention_groups": 3, "head_dim": 16},
                   "sliding_window": 6, "rope_theta": [5e6 if k == "full_attention" else 1e4 for k in kinds + more], "use_head_wise_attn_gate": True,
                   "partial_rotary_factors": [0.5 if k == "full_attention" else 1.0 for k in kinds + more], "yarn_only_types": ["full_attention"],
                   "rope_scaling": {"rope_type": "llama3", "factor": 2.0, "low_freq_factor": 1.0, "high_freq_factor": 32.0, "original_max_position_embeddings": 64},
                   "moe_num_experts": 8, "moe_top_k": 3, "moe_intermediate_size": 32, "share_expert_dim": 40, "moe_router_scaling_factor": 3.0, "norm_expert_weight": True,
                   "moe_layers_enum": "2,3,4,5", "use_moe_router_bias": True, "swiglu_limits": routed, "swiglu_limits_shared": others, "num_nextn_predict_layers": 2})
        del m.c["num_key_value_heads"]
        norm = lambda x, name, n=64: rms_norm(x, 1 + m.get(name + ".weight", n), 1e-5)
        full, local = llama3(5e6 ** (-np.arange(0, 8, 2) / 8), 2, 1, 32, 64), 1e4 ** (-np.arange(0, 16, 2) / 16)
        limited = lambda g, u, limit: np.minimum(silu(g), limit) * np.clip(u, -limit, limit) if limit else silu(g) * u

        def mlp(h, p, width, limit):
            gate, up = (h @ m.get(f"{p}{n}_proj.weight", width, 64).T for n in ("gate", "up"))
            return limited(gate, up, limit) @ m.get(p + "down_proj.weight", 64, width).T
        x = m.get("model.embed_tokens.weight", 48, 64, scale=1.0)[TOKENS]
        for l, kind in enumerate(kinds):
            p, window = f"model.layers.{l}.", kind == "sliding_attention"
            heads, kv = (6, 3) if window else (4, 2)
            h, a = norm(x, p + "input_layernorm"), p + "self_attn."
            q, k, v = (heads_of(h @ m.get(f"{a}{n}_proj.weight", w * 16, 64).T, 16) for n, w in (("q", heads), ("k", kv), ("v", kv)))
            q, k = (rotate(norm(t, f"{a}{n}_norm", 16), local if window else full) for n, t in (("q", q), ("k", k)))
            y = attention(q, k, v, 6 if window else None) * np.repeat(sigmoid(h @ m.get(a + "g_proj.weight", heads, 64).T), 16, -1)
            x = x + y @ m.get(a + "o_proj.weight", 64, heads * 16).T
            h = norm(x, p + "post_attention_layernorm")
            if l < 2:
                x = x + mlp(h, p + "mlp.", 96, others[l])
                continue
            scores = sigmoid(router(m, h, p + "moe.gate.weight", 8))
            weights = 3 * normalised(chosen(scores + m.get(p + "moe.router_bias", 8, scale=biases), scores, 3))
            gate, up, down = (m.get(f"{p}moe.{n}_proj.weight", 8, *shape) for n, shape in (("gate", (32, 64)), ("up", (32, 64)), ("down", (64, 32))))
            x = x + mlp(h, p + "share_expert.", 40, others[l])
            for e in range(8):
                x = x + weights[:, e:e + 1] * (limited(h @ gate[e].T, h @ up[e].T, routed[l]) @ down[e].T)
        logits = norm(x, "model.norm") @ m.get("lm_head.weight", 48, 64).T
        for at, like in ((6, 1), (7, 0)):
            behind(m, like, f"model.layers.{at}.", {**FURTHER, "transformer.shared_head.norm": (64,), "transformer.shared_head.output": (48, 64)})
        return m, logits
    m, logits = apart(of)
    yield "step35", m, 128, logits


def mimo_fused():
    """Queries, keys and values are in one tensor, in as many parts as layers without windows have KV heads. Layers behind the last are apart, and dense."""
    hybrid = [0, 1, 1, 0, 1]

    def of(biases):
        m = Model({"architectures": ["MiMoV2ForCausalLM"], "hidden_act": "silu", "num_hidden_layers": 5, "head_dim": 24, "v_head_dim": 16, "num_key_value_heads": 2,
                   "swa_num_key_value_heads": 4, "hybrid_layer_pattern": hybrid, "moe_layer_freq": [0, 1, 1, 1, 1], "n_routed_experts": 8, "num_experts_per_tok": 3,
                   "moe_intermediate_size": 32, "norm_topk_prob": True, "scoring_func": "sigmoid", "sliding_window": 6, "partial_rotary_factor": 0.334,
                   "rope_theta": 5000000.0, "swa_rope_theta": 10000.0, "attention_value_scale": 0.707, "layernorm_epsilon": 1e-5})
        m.c["rms_norm_eps"] = 1e-5
        x = m.get("model.embed_tokens.weight", 48, 64, scale=1.0)[TOKENS]
        for l, window in enumerate(hybrid):
            p, kv = f"model.layers.{l}.", 4 if window else 2
            h, a, rows = rms(m, x, p + "input_layernorm"), p + "self_attn.", (4 * 24 + kv * 24 + kv * 16) // 2
            qkv = h @ m.get(a + "qkv_proj.weight", 2 * rows, 64).T
            q, k, v = (np.concatenate([qkv[:, i * rows:][:, at:at + n] for i in range(2)], -1) for at, n in ((0, 48), (48, 12 * kv), (48 + 12 * kv, 8 * kv)))
            freqs = (10000.0 if window else 5000000.0) ** (-np.arange(0, 8, 2) / 8)
            q, k = rotate(heads_of(q, 24), freqs), rotate(heads_of(k, 24), freqs)
            sinks = m.get(a + "attention_sink_bias", 4, scale=1.0) if window else None
            x = x + 0.707 * attention(q, k, heads_of(v, 16), 6 if window else None, sinks=sinks) @ m.get(a + "o_proj.weight", 64, 64).T
            h = rms(m, x, p + "post_attention_layernorm")
            x = x + (scored(m, h, p + "mlp.", shared=None, biases=biases) if l else swiglu(m, h, p + "mlp."))
        logits = rms(m, x, "model.norm") @ m.get("lm_head.weight", 48, 64).T
        for i in range(2):
            to = f"model.mtp.layers.{i}."
            for name, shape in {"input_layernorm": (64,), "pre_mlp_layernorm": (64,), "final_layernorm": (64,), "self_attn.qkv_proj": (256, 64), "self_attn.o_proj": (64, 64),
                                "mlp.gate_proj": (96, 64), "mlp.up_proj": (96, 64), "mlp.down_proj": (64, 96), **FURTHER}.items():
                m.get(f"{to}{name}.weight", *shape)
            m.get(to + "self_attn.attention_sink_bias", 4)
        return m, logits
    m, logits = apart(of)
    yield "mimo2-fused", m, 128, logits


def deepseek_yarn():
    """Without mscale_all_dim YaRN's magnitude is of what is rotated alone, and scores are not multiplied."""
    m = Model({"architectures": ["DeepseekV3ForCausalLM"], "hidden_act": "silu", "rms_norm_eps": 1e-6, "num_key_value_heads": 4, "kv_lora_rank": 32, "q_lora_rank": 40,
               "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 24, "rope_scaling": {"type": "yarn", "factor": 8, "original_max_position_embeddings": 16,
                                                                                                "beta_fast": 2.0, "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 0.0}})
    freqs = yarn(frequencies(m, 8), 8, 10000.0, 8.0, 16, fast=2.0)
    h = latent_decoder(m, freqs, lambda x, f: rotate_neighbours(x, f, 0.1 * np.log(8) + 1))
    yield "deepseek2-yarn", m, 128, h @ m.get("lm_head.weight", 48, 64).T


def grove():
    """Two neighbouring experts share a small one, which reads what they read, has their weights, and gives 0.05 of its part."""
    def of(scale):
        m = Model({"architectures": ["GroveMoeForCausalLM"], "hidden_act": "silu", "rms_norm_eps": 1e-6, "head_dim": 24, "num_experts": 8, "num_experts_per_tok": 4,
                   "moe_intermediate_size": 32, "norm_topk_prob": True, "decoder_sparse_step": 1, "mlp_only_layers": [], "rope_theta": 1000000.0})

        def mlp(m, h, p):
            logits = h @ m.get(p + "gate.weight", 8, 64, scale=scale).T
            weights = normalised(chosen(logits, softmax(logits), 4))
            m.get(p + "expert_bias", 8)
            large = experts(m, h, weights, [f"{p}experts.%d.{w}.weight" for w in PROJECTIONS], 32)
            return large + 0.05 * experts(m, h, weights.reshape(len(h), 4, 2).sum(-1), [f"{p}chunk_experts.%d.{w}.weight" for w in PROJECTIONS], 24)
        return m, run(m, rms, frequencies(m, 24), mlp, heads=head_norms)
    m, logits = apart(of)
    yield "grovemoe", m, 128, logits


def deci():
    """Layers differ in their KV heads and neurons, which follow from a factor; one has a product in place of attention, one neither, one nothing at all."""
    attend = lambda group: {"attention": {"n_heads_in_group": group, "no_op": group is None, "replace_with_linear": False}}
    wide = lambda factor: {"ffn": {"ffn_mult": factor, "no_op": factor is None, "replace_with_linear": False}}
    product = {"attention": {"n_heads_in_group": None, "no_op": False, "replace_with_linear": True}}
    blocks = [{**attend(2), **wide(2.0)}, {**attend(4), **wide(7.0)}, {**product, **wide(2.0)}, {**attend(None), **wide(3.0)}, {**attend(None), **wide(None)}, {**attend(1), **wide(2.0)}]
    m = Model({"architectures": ["DeciLMForCausalLM"], "model_type": "nemotron-nas", "hidden_act": "silu", "rms_norm_eps": 1e-5, "num_hidden_layers": 6, "block_configs": blocks,
               "num_key_value_heads": None, "intermediate_size": None, "rope_theta": 500000.0,
               "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}})
    freqs = llama3(frequencies(m, 16), 8, 1, 4, 64)
    x = m.get("model.embed_tokens.weight", 48, 64, scale=1.0)[TOKENS]
    for l, b in enumerate(blocks):
        p, a = f"model.layers.{l}.", b["attention"]
        if a["replace_with_linear"]:
            x = x + rms(m, x, p + "input_layernorm") @ m.get(p + "self_attn.linear_attn.weight", 64, 64).T
        elif not a["no_op"]:
            h, kv = rms(m, x, p + "input_layernorm"), 4 // a["n_heads_in_group"]
            q, k, v = (heads_of(h @ m.get(f"{p}self_attn.{n}_proj.weight", w * 16, 64, scale=0.1).T, 16) for n, w in (("q", 4), ("k", kv), ("v", kv)))
            x = x + attention(rotate(q, freqs), rotate(k, freqs), v) @ m.get(p + "self_attn.o_proj.weight", 64, 64).T
        if not b["ffn"]["no_op"]:
            width = -(-int(2 * b["ffn"]["ffn_mult"] * 64 / 3) // 256) * 256
            h = rms(m, x, p + "post_attention_layernorm")
            gate, up = (h @ m.get(f"{p}mlp.{n}_proj.weight", width, 64, scale=0.1).T for n in ("gate", "up"))
            x = x + silu(gate) * up @ m.get(p + "mlp.down_proj.weight", 64, width, scale=0.1).T
    yield "deci", m, 128, rms(m, x, "model.norm") @ m.get("lm_head.weight", 48, 64).T


def dots_note():
    """Latent attention of two shapes. Layers with windows have none of the indexers. The part of keys that heads share is normed before its rotation, each
    head has a gate, and what norms of latent vectors give is multiplied."""
    kinds = [k + "_attention" for k in ("full", "sliding", "sliding", "full", "sliding")]

    def of(table):
        m = Model({"architectures": ["Dots3NoteForCausalLM"], "hidden_act": "silu", "rms_norm_eps": 1e-6, "num_key_value_heads": 4, "kv_lora_rank": 32, "q_lora_rank": 40,
                   "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 24, "num_hidden_layers": 5, "layer_types": kinds, "swa_num_attention_heads": 6,
                   "swa_kv_lora_rank": 48, "swa_q_lora_rank": 40, "swa_qk_nope_head_dim": 24, "swa_qk_rope_head_dim": 8, "swa_v_head_dim": 16, "swa_head_dim": 32,
                   "sliding_window_size": 6, "apply_mla_qkv_lora_rescale": True, "use_dsa": True, "rope_theta": 1e6, "swa_rope_theta": 10000.0, "moe_intermediate_size": 32,
                   "n_routed_experts": 8, "n_shared_experts": 2, "num_experts_per_tok": 3, "first_k_dense_replace": 1, "norm_topk_prob": True, "routed_scaling_factor": 2.5,
                   "scoring_func": "sigmoid", "topk_method": "noaux_tc", "n_group": 1, "topk_group": 1, "index_n_heads": 5, "index_head_dim": 16, "index_topk": 6})
        norm = lambda x, name, n, by=1: by * rms_norm(x, m.get(name + ".weight", n, offset=1.0), 1e-6)
        x = m.get("model.embed_tokens.weight", 48, 64, scale=table)[TOKENS]
        for l, kind in enumerate(kinds):
            p, window = f"model.layers.{l}.", kind == "sliding_attention"
            heads, own, value, width, theta = (6, 24, 16, 48, 1e4) if window else (4, 16, 24, 32, 1e6)
            h, a, freqs = rms(m, x, p + "input_layernorm"), p + "self_attn.", theta ** (-np.arange(0, 8, 2) / 8)
            latent = norm(linear(m, h, a + "q_a_proj", 40, bias=False), a + "q_a_layernorm", 40, np.sqrt(64 / 40))
            q = heads_of(linear(m, latent, a + "q_b_proj", heads * (own + 8), bias=False, scale=0.1), own + 8)
            both = linear(m, h, a + "kv_a_proj_with_mqa", width + 8, bias=False)
            shared = rotate_neighbours(norm(both[:, width:], a + "k_rope_only_layernorm", 8)[:, None], freqs)
            kv = heads_of(linear(m, norm(both[:, :width], a + "kv_a_layernorm", width, np.sqrt(64 / width)), a + "kv_b_proj", heads * (own + value), bias=False, scale=0.15), own + value)
            q = np.concatenate([q[..., :own], rotate_neighbours(q[..., own:], freqs)], -1)
            k = np.concatenate([kv[..., :own], np.repeat(shared, heads, 1)], -1)
            if window:
                y = attention(q, k, kv[..., own:], 6)
            else:
                seen = index(m, h, latent, a + "indexer.", freqs, rotate)
                y = see(q, k, kv[..., own:], seen[:, None], 1 / np.sqrt(own + 8))
            y = y * np.repeat(sigmoid(h @ m.get(a + "gate_proj.weight", heads, 64).T), value, -1)
            x = x + linear(m, y, a + "o_proj", 64, bias=False)
            h = rms(m, x, p + "post_attention_layernorm")
            y = deepseek_experts(m, h, p + "mlp.", "sigmoid")
            if y is None:
                h = silu(linear(m, h, p + "mlp.gate_proj", 96, bias=False)) * linear(m, h, p + "mlp.up_proj", 96, bias=False)
                y = linear(m, h, p + "mlp.down_proj", 64, bias=False)
            x = x + y
        logits = rms(m, x, "model.norm") @ m.get("lm_head.weight", 48, 64).T
        m.get("model.mtp.embed_tokens.weight", 48, 64)
        m.get("model.layers.5.eh_proj.weight", 64, 128)
        return m, logits
    m, logits = apart(lambda n: of(0.9 + n))
    yield "dots3note", m, 128, logits


def deepseek_ocr():
    """DeepSeek's first experts with attention of Llama's form. What files do not say: weights are of a softmax over all experts and not divided by their sum."""
    def of(queries):
        m = Model({"architectures": ["DeepseekV2ForCausalLM"], "num_key_value_heads": 4, "moe_intermediate_size": 32, "n_routed_experts": 8, "n_shared_experts": 2,
                   "num_experts_per_tok": 3, "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1, "topk_method": "greedy", "use_mla": False, "q_lora_rank": None,
                   "kv_lora_rank": None, "qk_nope_head_dim": 0, "qk_rope_head_dim": 0, "v_head_dim": 0})
        m.folder = {"architectures": ["DeepseekOCRForCausalLM"], "model_type": "deepseek_vl_v2", "language_config": m.c, "vocab_size": 48, "projector_config": {"n_embed": 64},
                    "vision_config": {"image_size": 1024, "width": {"sam_vit_b": {"heads": 12}}}}
        m.c = {**m.c, "rms_norm_eps": 1e-6}

        def mlp(m, h, p):
            if ".0." in p:
                return swiglu(m, h, p)
            scores = softmax(router(m, h, p + "gate.weight", 8))
            y = experts(m, h, chosen(np.log(scores), scores, 3), [f"{p}experts.%d.{w}.weight" for w in PROJECTIONS], 32)
            return y + expert_mlp(m, h, 64, *(f"{p}shared_experts.{w}.weight" for w in PROJECTIONS))
        logits = run(m, rms, frequencies(m, 16), mlp, queries=queries)
        for name, shape in {"sam_model.pos_embed": (1, 4, 4, 8), "vision_model.pre_layrnorm.weight": (8,), "projector.layers.weight": (64, 16), "image_newline": (64,), "view_seperator": (64,)}.items():
            m.get("model." + name, *shape)
        return m, logits
    m, logits = apart(of)
    yield "deepseek2-ocr", m, 128, logits


if __name__ == "__main__":
    write((glm_pictures, solar, step35, mimo_fused, deepseek_yarn, grove, deci, dots_note, deepseek_ocr))
