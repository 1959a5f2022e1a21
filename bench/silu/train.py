#!/usr/bin/python3
"""Trains a small SiLU model on a processor, for measuring --sparse threshold on weights that mean something.

It takes embeddings, norms and attention from a Llama-shaped model in Hugging Face's form (the one that demo/tales-relu.gguf
was made from), gives it new SiLU feed-forward layers, random ones, and trains everything on a text for a while. Activations
are those of a SiLU network: nothing of the old feed-forward layers and no penalty on activations is in them.
Needs Debian's python3-torch, and libopenblas0-pthread, without which products take fourteen times as long. What it makes depends on how many steps
the machine manages, so no two runs give the same weights.

    bench/silu/train.py HF_FOLDER train.txt OUT_FOLDER --minutes 20
    powerinfer convert OUT_FOLDER -o tales-silu.gguf --outtype f16
"""
import argparse, json, math, os, re, shutil, struct, time
import numpy as np, torch
import torch.nn.functional as F

WINDOW, BATCH, SEED = 256, 4, 1
RATE_NEW, RATE_OLD = 3e-3, 5e-4  # of feed-forward layers, and of what was trained before


def read(path):
    with open(path, "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        data = f.read()
    header.pop("__metadata__", None)
    kinds = {"F16": np.float16, "F32": np.float32}
    return {k: torch.tensor(np.frombuffer(data[v["data_offsets"][0]:v["data_offsets"][1]], kinds[v["dtype"]]).reshape(v["shape"]).astype(np.float32))
            for k, v in header.items()}


def write(path, tensors):
    header, blobs, at = {"__metadata__": {"format": "pt"}}, [], 0
    for k, v in tensors.items():
        b = v.detach().numpy().astype(np.float16).tobytes()
        header[k] = {"dtype": "F16", "shape": list(v.shape), "data_offsets": [at, at + len(b)]}
        blobs.append(b)
        at += len(b)
    j = json.dumps(header).encode()
    j += b" " * (-len(j) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(j)) + j + b"".join(blobs))


def encode(folder, text):
    """Returns the tokens of documents that lie between lines of <|doc|>: BPE without a pre-tokenizer, words apart at spaces."""
    model = json.load(open(os.path.join(folder, "tokenizer.json")))["model"]
    vocab = model["vocab"]
    rank = {}
    for i, m in enumerate(model["merges"]):
        a, b = m.split(" ") if isinstance(m, str) else m
        rank[a, b] = i
    known = {}

    def word(w):
        if w not in known:
            p = list(w)
            while len(p) > 1:
                best = min(range(len(p) - 1), key=lambda i: rank.get((p[i], p[i + 1]), 1 << 30))
                if (p[best], p[best + 1]) not in rank:
                    break
                p[best:best + 2] = [p[best] + p[best + 1]]
            known[w] = [t for x in p for t in ([vocab[x]] if x in vocab else [vocab["<0x%02X>" % b] for b in x.encode()])]
        return known[w]

    out = []
    for doc in text.split("\n<|doc|>\n"):
        out.append(vocab["<s>"])
        for w in re.findall(r"\n|▁[^▁\n]*|[^▁\n]+", "▁" + doc.replace(" ", "▁")):
            out += word(w)
        out.append(vocab["</s>"])
    return torch.tensor(out)


def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def logits(w, c, ids):
    batch, n = ids.shape
    size, heads, kv = c["head_dim"], c["num_attention_heads"], c["num_key_value_heads"]
    angle = torch.outer(torch.arange(n).float(), c["rope_theta"] ** -(torch.arange(0, size, 2).float() / size))
    cos, sin = angle.cos(), angle.sin()
    later = torch.full((n, n), float("-inf")).triu(1)

    def norm(x, name):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + c["rms_norm_eps"]) * w[name]

    x = w["model.embed_tokens.weight"][ids]
    for i in range(c["num_hidden_layers"]):
        p = f"model.layers.{i}."
        h = norm(x, p + "input_layernorm.weight")
        q, k, v = ((h @ w[p + f"self_attn.{s}_proj.weight"].t()).view(batch, n, -1, size).transpose(1, 2) for s in "qkv")
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        k, v = (t.repeat_interleave(heads // kv, 1) for t in (k, v))
        h = torch.softmax(q @ k.transpose(2, 3) * size**-0.5 + later, -1) @ v
        x = x + h.transpose(1, 2).reshape(batch, n, -1) @ w[p + "self_attn.o_proj.weight"].t()
        h = norm(x, p + "post_attention_layernorm.weight")
        h = F.silu(h @ w[p + "mlp.gate_proj.weight"].t()) * (h @ w[p + "mlp.up_proj.weight"].t())
        x = x + h @ w[p + "mlp.down_proj.weight"].t()
    return norm(x, "model.norm.weight") @ w["model.embed_tokens.weight"].t()


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("model"), a.add_argument("text"), a.add_argument("out")
    a.add_argument("--minutes", type=float, default=20)
    a.add_argument("--threads", type=int, default=1)
    o = a.parse_args()
    torch.manual_seed(SEED)
    torch.set_num_threads(o.threads)
    c = json.load(open(os.path.join(o.model, "config.json")))
    w = read(os.path.join(o.model, "model.safetensors"))
    old = c["hidden_size"] ** -0.5
    for k in w:
        if ".mlp." in k:
            scale = old if "down" not in k else c["intermediate_size"] ** -0.5 * (2 * c["num_hidden_layers"]) ** -0.5
            w[k] = torch.randn(w[k].shape) * scale
        w[k].requires_grad_()
    tokens = encode(o.model, open(o.text).read())
    print(len(tokens), "tokens of text", flush=True)
    new = [v for k, v in w.items() if ".mlp." in k]
    rest = [v for k, v in w.items() if ".mlp." not in k]
    rates = (RATE_NEW, RATE_OLD)
    opt = torch.optim.AdamW([{"params": new}, {"params": rest}], lr=1, betas=(0.9, 0.95), weight_decay=0)
    begin, step, mean = time.time(), 0, None
    while (gone := (time.time() - begin) / (60 * o.minutes)) < 1:
        for g, r in zip(opt.param_groups, rates):
            g["lr"] = r * min(1, (step + 1) / 50) * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * gone)))
        at = torch.randint(len(tokens) - WINDOW - 1, (BATCH,))
        ids = torch.stack([tokens[i:i + WINDOW + 1] for i in at])
        loss = F.cross_entropy(logits(w, c, ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(new + rest, 1)
        opt.step()
        mean = loss.item() if mean is None else 0.98 * mean + 0.02 * loss.item()
        step += 1
        if step % 20 == 0:
            print(f"step {step}, {step * BATCH * WINDOW} tokens, perplexity {math.exp(mean):.1f}, {100 * gone:.0f} %", flush=True)
    os.makedirs(o.out, exist_ok=True)
    write(os.path.join(o.out, "model.safetensors"), w)
    c["hidden_act"] = "silu"
    json.dump(c, open(os.path.join(o.out, "config.json"), "w"), indent=1)
    for name in ("tokenizer.json", "tokenizer.model", "tokenizer_config.json", "special_tokens_map.json", "generation_config.json"):
        if os.path.exists(os.path.join(o.model, name)):
            shutil.copy(os.path.join(o.model, name), o.out)
    print(f"step {step}, {step * BATCH * WINDOW} tokens, perplexity {math.exp(mean):.1f} while training")


main()
