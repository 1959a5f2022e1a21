"""Reference logits as reference.py writes them, of folders whose names and forms are the makers' own.

    python3 reference_published.py

Sources: transformers' glm4v_moe (GLM 4.5V and 4.6V), glm_ocr and solar_open.
"""
from reference import frequencies, gated, Model, rms, rotate_neighbours, run, swiglu, write
from reference_experts import scored


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


if __name__ == "__main__":
    write((glm_pictures, solar))
