"""Reference logits as reference.py writes them, of families that share a shape: attention with norms of each head's queries and keys,
perhaps a gate, windows in some layers, and routed experts with shared ones.

    python3 reference_experts.py

Sources: the configurations and model cards of Mistral Small 4 (mistral4).
"""
import math

import numpy as np

from reference import (Model, PROJECTIONS, TOKENS, chosen, expert_mlp, experts, frequencies, latent_decoder, normalised, rms, rotate,
                       rotate_neighbours, router, softmax, write, yarn)
import reference


def stacked_experts(m, h, weights, p, width):
    """Experts whose matrices are one tensor of gates and then ups, and one of downs."""
    hidden, n = m.c["hidden_size"], weights.shape[-1]
    both, down = m.get(p + "experts.gate_up_proj", n, 2 * width, hidden), m.get(p + "experts.down_proj", n, hidden, width)
    y = np.zeros_like(h)
    for e in range(n):
        gate, up = np.split(h @ both[e].T, 2, -1)
        y += weights[:, e:e + 1] * (reference.silu(gate) * up @ down[e].T)
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


if __name__ == "__main__":
    write((mistral4,))
