"""Reference logits as reference.py writes them, of Grok 2.

    python3 reference_grok.py

Source: xAI 2025, the published configuration of Grok 2, and xAI 2024, the published code of Grok-1.
"""
import math

from reference import Model, chosen, frequencies, gelu, normalised, rms, run, softmax, router, write, yarn


def grok():
    """GEGLU experts beside a GEGLU for all tokens, the sum divided by √2; soft caps of scores and logits, factors of embeddings, scores and logits. YaRN's magnitude is the usual one."""
    base = {"architectures": ["Grok1ForCausalLM"], "hidden_act": "gelu", "rms_norm_eps": 1e-5, "num_local_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
            "residual_moe": True, "embedding_multiplier_scale": 6.0, "output_multiplier_scale": 0.5, "attn_logit_softcapping": 4.0, "final_logit_softcapping": 3.0,
            "router_logit_softcapping": 30.0, "rope_theta": 50000.0}
    for name, config in (("grok", {"attn_output_multiplier": 0.2}),
                         ("grok-long", {"rope_type": "original", "scaling_factor": 4.0, "original_max_position_embeddings": 32, "extrapolation_factor": 1.0, "attn_factor": 1.0,
                                        "beta_fast": 8.0, "beta_slow": 1.0, "head_dim": 16})):
        m = Model({**base, **config})

        def glu(m, h, width, gate, up, down):
            return gelu(h @ m.get(gate, width, 64).T) * (h @ m.get(up, width, 64).T) @ m.get(down, 64, width).T

        def mlp(m, h, p):
            moe = p.replace("mlp.", "block_sparse_moe.")
            z = router(m, h, moe + "gate.weight", 8)
            weights = normalised(chosen(z, softmax(z), 2))
            y = sum(weights[:, e:e + 1] * glu(m, h, 32, *(f"{moe}experts.{e}.{w}.weight" for w in ("w1", "w3", "w2"))) for e in range(8))
            return (y + glu(m, h, 96, *(f"{p}{w}_proj.weight" for w in ("gate", "up", "down")))) / math.sqrt(2)
        freqs, magnitude = frequencies(m, 16), 1.0
        if name == "grok-long":
            freqs, magnitude = yarn(freqs, 16, 50000.0, 4.0, 32, fast=8.0), 1 + 0.1 * math.log(4)
        yield name, m, 128, run(m, rms, freqs, mlp, before=("pre_attn_norm", "pre_moe_norm"), after=("post_attn_norm", "post_moe_norm"), embedding=6.0,
                                scale=m.c.get("attn_output_multiplier"), cap=4.0, logits=2.0, logit_cap=3.0, magnitude=magnitude)


if __name__ == "__main__":
    write((grok,))
