"""Reference logits as reference.py writes them, of Gemma 4's mixture of experts.

    python3 reference_qwen4.py

Sources: the configuration and model card of Gemma 4 26B-A4B (gemma4-moe).
"""
import numpy as np

from reference import TOKENS, Model, chosen, gelu, layer_inputs, normalised, of_layer, plain_rms, rms_norm, shared_attention, softmax, write


def gemma4_moe():
    """Experts beside the feed-forward layer: router, experts and feed-forward layer read the residual through norms of their own, and what each
    gives is normed before it is added up. The router's norm has no weights but a scale, and every expert's output has a factor. The small form
    has layers' own embeddings and shared keys and values besides."""
    base = {"hidden_activation": "gelu_pytorch_tanh", "rms_norm_eps": 1e-6, "head_dim": 16, "global_head_dim": 32, "tie_word_embeddings": True,
            "sliding_window": 6, "final_logit_softcapping": 8.0, "enable_moe_block": True, "num_experts": 8, "top_k_experts": 3,
            "moe_intermediate_size": 32, "num_hidden_layers": 6, "rope_parameters": {
                "full_attention": {"rope_type": "proportional", "rope_theta": 1000000.0, "partial_rotary_factor": 0.25},
                "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}},
            "layer_types": ["sliding_attention", "sliding_attention", "full_attention"] * 2}
    for name, config in [
            ("gemma4-moe", {"num_kv_shared_layers": 0, "hidden_size_per_layer_input": 0, "attention_k_eq_v": True, "num_global_key_value_heads": 1}),
            ("gemma4-moe-small", {"num_kv_shared_layers": 3, "use_double_wide_mlp": True, "hidden_size_per_layer_input": 16, "attention_k_eq_v": False})]:
        m = Model({**base, **config})
        c, root, large = m.c, "model.", name == "gemma4-moe"
        if large:
            root = "model.language_model."
            m.folder = {"architectures": ["Gemma4ForConditionalGeneration"], "text_config": c, "vision_config": {"hidden_size": 8}}
            m.get("model.vision_tower.patch_embedder.input_proj.weight", 8, 12)
        else:
            c["architectures"] = ["Gemma4ForCausalLM"]
        embedding = m.get(root + "embed_tokens.weight", 48, 64, scale=1.0)
        x = embedding[TOKENS] * 8.0
        own = None if large else layer_inputs(m, x, root)
        kept = {}
        for layer in range(6):
            p, full, shared = f"{root}layers.{layer}.", layer % 3 == 2, layer >= 6 - c["num_kv_shared_layers"]
            dim, kv = (32, c.get("num_global_key_value_heads", 2)) if full else (16, 2)
            freqs = 10000.0 ** (-np.arange(0, 16, 2) / 16)
            if full:
                freqs = np.where(np.arange(16) < 4, 1000000.0 ** (-np.arange(0, 32, 2) / 32), 0)
            h = plain_rms(m, x, p + "input_layernorm")
            x = x + shared_attention(m, h, p, layer, kept, dim, kv, freqs, None if full else 6, not (full and c["attention_k_eq_v"]))
            h, ff = plain_rms(m, x, p + "pre_feedforward_layernorm"), 96 * (2 if shared else 1)
            gate, up = (h @ m.get(f"{p}mlp.{n}_proj.weight", ff, 64).T for n in ("gate", "up"))
            y = plain_rms(m, gelu(gate) * up @ m.get(p + "mlp.down_proj.weight", 64, ff).T, p + "post_feedforward_layernorm_1")
            y = y + plain_rms(m, mixture(m, x, p), p + "post_feedforward_layernorm_2")
            x = x + plain_rms(m, y, p + "post_feedforward_layernorm")
            if own is not None:
                x = x + of_layer(m, x, own[:, layer], p)
            x = x * m.get(p + "layer_scalar", 1, offset=0.75)
        x = plain_rms(m, x, root + "norm")
        yield name, m, 128, 8.0 * np.tanh(x @ embedding.T / 8.0)


def mixture(m, x, p):
    """Three of eight experts for the residual x."""
    read = rms_norm(x, 1, 1e-6) * m.get(p + "router.scale", 64, offset=1.0) / 8.0
    scores = softmax(read @ m.get(p + "router.proj.weight", 8, 64, scale=4.0).T)
    weights = normalised(chosen(np.log(scores), scores, 3)) * m.get(p + "router.per_expert_scale", 8, offset=1.0)
    h = plain_rms(m, x, p + "pre_feedforward_layernorm_2")
    both, down = m.get(p + "experts.gate_up_proj", 8, 64, 64), m.get(p + "experts.down_proj", 8, 64, 32)
    y = np.zeros_like(h)
    for e in range(8):
        gate, up = np.split(h @ both[e].T, 2, -1)
        y += weights[:, e:e + 1] * (gelu(gate) * up @ down[e].T)
    return y


if __name__ == "__main__":
    write((gemma4_moe,))
