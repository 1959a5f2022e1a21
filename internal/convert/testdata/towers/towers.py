"""Writes the reference rows in this folder: what the towers of tiny folders make of a small picture, in numpy and float64, from the published definitions.
Weights follow from their names, as those of ../reference do, so that only rows are kept. Interpolations of positions are PyTorch's.

    python3 towers.py

Each function follows the published code of its name, in transformers but where another is named, on tensors named and shaped as published folders have them:
gemma3: SiglipVisionModel, Gemma3MultiModalProjector. qwen2, qwen25, qwen3: the vision models of Qwen2-VL, Qwen2.5-VL and Qwen3-VL. pixtral: PixtralVisionModel,
Mistral3MultiModalProjector. gemma4: Gemma4VisionModel, Gemma4MultimodalEmbedder; gemma4_unified: Gemma4UnifiedVisionEmbedder. internvl: OpenGVLab's
modeling_intern_vit.py and modeling_internvl_chat.py, and InternVLVisionModel. lfm2: Siglip2VisionModel, Lfm2VlMultiModalProjector. glm4v: Glm4vVisionModel.
kimi: Moonshot's modeling_kimi_k25.py. llama4: Llama4VisionModel, Llama4MultiModalProjector.

Pictures have sizes that processors leave as they are; what processors do to others is no part of this.
"""
import json
import math
import pathlib
import sys

import numpy as np
import torch

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "reference"))
sys.dont_write_bytecode = True
from reference import weight  # noqa: E402

HERE = pathlib.Path(__file__).parent
ROWS = 16  # numbers of a row
HALF = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}
CLIP = {"image_mean": [0.48145466, 0.4578275, 0.40821073], "image_std": [0.26862954, 0.26130258, 0.27577711]}
IMAGENET = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}


def picture(wide, high):
    """[high, wide, 3], whole numbers of 8 bits."""
    y, x, c = np.arange(high)[:, None, None], np.arange(wide)[None, :, None], np.arange(3)[None, None, :]
    return (5 * x + 11 * y + 3 * x * y + 70 * c + x * x % 31 * c) % 256


class Folder:
    def __init__(self, architecture, wide, high, vision, processor, **more):
        self.config = {"architectures": [architecture], "text_config": {"hidden_size": ROWS, "vocab_size": 48, "rms_norm_eps": 1e-5}, "vision_config": vision, **more}
        self.size, self.v, self.tensors = (wide, high), vision, {}
        self.files = {"preprocessor_config.json": processor}
        self.processor = processor
        self.get("language_model.model.embed_tokens.weight", 48, ROWS)  # of the text model

    def get(self, name, *shape, scale=0.25, offset=0.0):
        self.tensors[name] = {"shape": list(shape), "scale": scale, "offset": offset}
        return weight(name, shape, scale, offset)

    def pixels(self):
        """[3, high, wide], normalised."""
        x = picture(*self.size) / 255
        mean, std = self.processor["image_mean"], self.processor["image_std"]
        return ((x - mean) / std).transpose(2, 0, 1)

    def linear(self, x, name, out, bias=True, scale=None):
        y = x @ self.get(name + ".weight", out, x.shape[-1], scale=scale or 1.5 / math.sqrt(x.shape[-1])).T
        return y + self.get(name + ".bias", out) if bias else y

    def layer_norm(self, x, name, eps):
        n = x.shape[-1]
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps)
        return x * self.get(name + ".weight", n, offset=1.0) + self.get(name + ".bias", n)

    def rms_norm(self, x, name, eps, plus=0):
        return rms(x, eps) * (plus + self.get(name + ".weight", x.shape[-1], offset=1.0 - plus))

    def convolve(self, name, width, patch, bias=True):
        """A convolution whose steps are as long as its filter. [patches, width]"""
        w = self.get(name + ".weight", width, 3, patch, patch, scale=0.1)
        y = torch.nn.functional.conv2d(torch.tensor(self.pixels())[None], torch.tensor(w), stride=patch)[0].numpy()
        y = y.reshape(width, -1).T
        return y + self.get(name + ".bias", width) if bias else y

    def write(self, name, rows):
        n = [[float(f"{v:.7g}") for v in row] for row in rows]
        how = f"towers.py, numpy {np.__version__}, torch {torch.__version__}, float64"
        config = json.dumps({"how": how, "config": self.config, "files": self.files, "tensors": self.tensors, "picture": self.size, "rows": n}, separators=(",", ":"))
        (HERE / (name + ".json")).write_text(config + "\n")


def rms(x, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps)


erf = np.vectorize(math.erf)


def gelu(x):
    return x * 0.5 * (1 + erf(x / math.sqrt(2)))


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def silu(x):
    return x / (1 + np.exp(-x))


def quick_gelu(x):
    return x / (1 + np.exp(-1.702 * x))


def heads_of(x, heads):
    return x.reshape(len(x), heads, -1)


def attend(q, k, v, scale=None, seen=None):
    """q, k, v [n, heads, dim]."""
    s = np.einsum("ihd,jhd->hij", q, k) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if seen is not None:
        s = np.where(seen, s, -np.inf)
    s = np.exp(s - s.max(-1, keepdims=True))
    return np.einsum("hij,jhd->ihd", s / s.sum(-1, keepdims=True), v).reshape(len(q), -1)


def rotate_half(x):
    a, b = np.split(x, 2, -1)
    return np.concatenate([-b, a], -1)


def halves(x, angles):
    """x [n, heads, dim], angles [n, dim / 2]: both halves of a head turn by the same."""
    a = np.concatenate([angles, angles], -1)[:, None]
    return x * np.cos(a) + rotate_half(x) * np.sin(a)


def neighbours(x, angles):
    """x [n, heads, dim] as complex numbers, angles [n, dim / 2]."""
    z = (x[..., ::2] + 1j * x[..., 1::2]) * np.exp(1j * angles)[:, None]
    return np.stack([z.real, z.imag], -1).reshape(x.shape)


def siglip(f, root, x):
    v = f.v
    for i in range(v["num_hidden_layers"]):
        p, heads = f"{root}encoder.layers.{i}.", v["num_attention_heads"]
        y = f.layer_norm(x, p + "layer_norm1", v["layer_norm_eps"])
        q, k, w = (heads_of(f.linear(y, p + f"self_attn.{n}_proj", v["hidden_size"]), heads) for n in "qkv")
        x = x + f.linear(attend(q, k, w), p + "self_attn.out_proj", v["hidden_size"])
        y = f.layer_norm(x, p + "layer_norm2", v["layer_norm_eps"])
        x = x + f.linear(gelu_tanh(f.linear(y, p + "mlp.fc1", v["intermediate_size"])), p + "mlp.fc2", v["hidden_size"])
    return f.layer_norm(x, root + "post_layernorm", v["layer_norm_eps"])


def gemma3():
    v = {"hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 56, "patch_size": 7,
         "layer_norm_eps": 1e-6, "hidden_act": "gelu_pytorch_tanh", "model_type": "siglip_vision_model"}
    for name, before, tokens in (("gemma3", "", 4), ("gemma3-blocks", "model.", 16)):
        f = Folder("Gemma3ForConditionalGeneration", 56, 56, v, HALF, mm_tokens_per_image=tokens)
        root, e, grid = before + "vision_tower.vision_model.", 32, 8
        x = f.convolve(root + "embeddings.patch_embedding", e, 7) + f.get(root + "embeddings.position_embedding.weight", grid * grid, e)
        x = siglip(f, root, x)
        side = int(math.sqrt(tokens))
        x = x.T.reshape(e, side, grid // side, side, grid // side).mean((2, 4)).reshape(e, -1).T
        x = f.rms_norm(x, before + "multi_modal_projector.mm_soft_emb_norm", 1e-6, plus=1)
        f.write(name, x @ f.get(before + "multi_modal_projector.mm_input_projection_weight", e, ROWS))


def qwen_patches(f, name, bias):
    """The processor's rows, block after block, through a convolution over two equal moments."""
    v = f.v
    p, m, e = v["patch_size"], v["spatial_merge_size"], v.get("embed_dim", v["hidden_size"])
    x = f.pixels()
    h, w = x.shape[1] // p, x.shape[2] // p
    x = np.stack([x, x])  # [moments, colours, high, wide]
    x = x.reshape(1, 2, 3, h // m, m, p, w // m, m, p).transpose(0, 3, 6, 4, 7, 2, 1, 5, 8).reshape(h * w, -1)
    x = x @ f.get(name + ".weight", e, 3, 2, p, p, scale=0.05).reshape(e, -1).T
    return (x + f.get(name + ".bias", e) if bias else x), h, w


def in_blocks(grid, m):
    """[h, w, …] -> [h·w, …], block after block."""
    h, w = grid.shape[:2]
    rest = grid.shape[2:]
    return grid.reshape(h // m, m, w // m, m, *rest).swapaxes(1, 2).reshape(h * w, *rest)


def qwen_angles(f, h, w, heads):
    dim = f.v.get("embed_dim", f.v["hidden_size"]) // heads // 2
    freqs = 1 / 10000 ** (np.arange(0, dim, 2) / dim)
    place = in_blocks(np.stack(np.meshgrid(np.arange(h), np.arange(w), indexing="ij"), -1), f.v["spatial_merge_size"])
    return (place[:, :, None] * freqs).reshape(h * w, -1)


def qwen2():
    v = {"embed_dim": 32, "hidden_size": ROWS, "mlp_ratio": 2, "depth": 3, "num_heads": 2, "patch_size": 14, "spatial_merge_size": 2,
         "temporal_patch_size": 2, "hidden_act": "quick_gelu", "in_channels": 3}
    f = Folder("Qwen2VLForConditionalGeneration", 112, 84, v, CLIP, hidden_size=ROWS, model_type="qwen2_vl")
    del f.config["text_config"]["hidden_size"]
    x, h, w = qwen_patches(f, "visual.patch_embed.proj", False)
    angles, e = qwen_angles(f, h, w, 2), 32
    for i in range(3):
        p = f"visual.blocks.{i}."
        y = f.layer_norm(x, p + "norm1", 1e-6)
        q, k, u = (heads_of(t, 2) for t in np.split(f.linear(y, p + "attn.qkv", 3 * e), 3, -1))
        x = x + f.linear(attend(halves(q, angles), halves(k, angles), u), p + "attn.proj", e)
        x = x + f.linear(quick_gelu(f.linear(f.layer_norm(x, p + "norm2", 1e-6), p + "mlp.fc1", 64)), p + "mlp.fc2", e)
    x = f.layer_norm(x, "visual.merger.ln_q", 1e-6).reshape(-1, 4 * e)
    f.write("qwen2vl", f.linear(gelu(f.linear(x, "visual.merger.mlp.0", 4 * e)), "visual.merger.mlp.2", ROWS))


def qwen25():
    v = {"hidden_size": 32, "intermediate_size": 52, "depth": 4, "num_heads": 2, "patch_size": 14, "spatial_merge_size": 2, "temporal_patch_size": 2,
         "window_size": 112, "fullatt_block_indexes": [1, 3], "hidden_act": "silu", "out_hidden_size": ROWS}
    f = Folder("Qwen2_5_VLForConditionalGeneration", 168, 140, v, CLIP, model_type="qwen2_5_vl")
    x, h, w = qwen_patches(f, "visual.patch_embed.proj", False)
    angles, e, n = qwen_angles(f, h, w, 2), 32, h * w
    side = v["window_size"] // 2 // 14  # blocks of a window
    index = np.arange(n // 4).reshape(h // 2, w // 2)
    pad_h, pad_w = side - h // 2 % side, side - w // 2 % side
    padded = np.pad(index, ((0, pad_h), (0, pad_w)), constant_values=-100)
    windows = padded.reshape((h // 2 + pad_h) // side, side, (w // 2 + pad_w) // side, side).transpose(0, 2, 1, 3).reshape(-1, side * side)
    order = windows[windows != -100]
    of_window = np.repeat(np.arange(len(windows)), (windows != -100).sum(1))
    of_window = np.repeat(of_window, 4)
    reorder = lambda t: t.reshape(n // 4, 4, -1)[order].reshape(n, -1)
    x, angles = reorder(x), reorder(angles)
    for i in range(4):
        p = f"visual.blocks.{i}."
        y = f.rms_norm(x, p + "norm1", 1e-6)
        q, k, u = (heads_of(t, 2) for t in np.split(f.linear(y, p + "attn.qkv", 3 * e), 3, -1))
        seen = None if i in v["fullatt_block_indexes"] else of_window[:, None] == of_window
        x = x + f.linear(attend(halves(q, angles), halves(k, angles), u, seen=seen), p + "attn.proj", e)
        y = f.rms_norm(x, p + "norm2", 1e-6)
        x = x + f.linear(silu(f.linear(y, p + "mlp.gate_proj", 52)) * f.linear(y, p + "mlp.up_proj", 52), p + "mlp.down_proj", e)
    x = f.rms_norm(x, "visual.merger.ln_q", 1e-6).reshape(-1, 4 * e)
    x = f.linear(gelu(f.linear(x, "visual.merger.mlp.0", 4 * e)), "visual.merger.mlp.2", ROWS)
    f.write("qwen2.5vl", x[np.argsort(order)])


def qwen3():
    for name, architecture, deep in (("qwen3vl", "Qwen3VLForConditionalGeneration", [2, 0]), ("qwen35", "Qwen3_5ForConditionalGeneration", [])):
        v = {"hidden_size": 32, "intermediate_size": 44, "depth": 3, "num_heads": 2, "patch_size": 16, "spatial_merge_size": 2, "temporal_patch_size": 2,
             "num_position_embeddings": 25, "deepstack_visual_indexes": deep, "hidden_act": "gelu_pytorch_tanh", "out_hidden_size": ROWS}
        f = Folder(architecture, 128, 96, v, HALF)
        root, e, side = "model.visual.", 32, 5
        x, h, w = qwen_patches(f, root + "patch_embed.proj", True)
        angles = qwen_angles(f, h, w, 2)
        table = f.get(root + "pos_embed.weight", side * side, e).reshape(side, side, e)
        down, across = np.linspace(0, side - 1, h), np.linspace(0, side - 1, w)
        a, b = down.astype(int), across.astype(int)
        c, d = (a + 1).clip(max=side - 1), (b + 1).clip(max=side - 1)
        dy, dx = (down - a)[:, None, None], (across - b)[None, :, None]
        grid = (1 - dy) * (1 - dx) * table[a][:, b] + (1 - dy) * dx * table[a][:, d] + dy * (1 - dx) * table[c][:, b] + dy * dx * table[c][:, d]
        x = x + in_blocks(grid, 2)
        features = {}
        for i in range(3):
            p = f"{root}blocks.{i}."
            y = f.layer_norm(x, p + "norm1", 1e-6)
            q, k, u = (heads_of(t, 2) for t in np.split(f.linear(y, p + "attn.qkv", 3 * e), 3, -1))
            x = x + f.linear(attend(halves(q, angles), halves(k, angles), u), p + "attn.proj", e)
            x = x + f.linear(gelu_tanh(f.linear(f.layer_norm(x, p + "norm2", 1e-6), p + "mlp.linear_fc1", 44)), p + "mlp.linear_fc2", e)
            if i in deep:
                p = f"{root}deepstack_merger_list.{deep.index(i)}."
                y = f.layer_norm(x.reshape(-1, 4 * e), p + "norm", 1e-6)
                features[i] = f.linear(gelu(f.linear(y, p + "linear_fc1", 4 * e)), p + "linear_fc2", ROWS)
        x = f.layer_norm(x, root + "merger.norm", 1e-6).reshape(-1, 4 * e)
        x = f.linear(gelu(f.linear(x, root + "merger.linear_fc1", 4 * e)), root + "merger.linear_fc2", ROWS)
        f.write(name, np.concatenate([x] + [features[i] for i in sorted(features)], -1))


def pixtral():
    for name, architecture, merge, bias in (("mistral3", "Mistral3ForConditionalGeneration", 2, False), ("pixtral", "LlavaForConditionalGeneration", 1, True)):
        v = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 2, "head_dim": 16, "image_size": 112, "patch_size": 14,
             "hidden_act": "silu", "rope_theta": 10000.0, "model_type": "pixtral"}
        f = Folder(architecture, 112, 84, v, CLIP, **({"spatial_merge_size": 2, "projector_hidden_act": "gelu"} if merge == 2 else {}))
        f.files["tokenizer.json"] = {"added_tokens": [{"id": 10, "content": "[IMG]"}, {"id": 12, "content": "[IMG_BREAK]"}, {"id": 13, "content": "[IMG_END]"}]}
        f.files["tokenizer_config.json"] = {"added_tokens_decoder": {"12": {"content": "[IMG_BREAK]"}}}
        e, h, w, p = 32, 6, 8, "multi_modal_projector."
        x = f.rms_norm(f.convolve("vision_tower.patch_conv", e, 14, bias=False), "vision_tower.ln_pre", 1e-5)
        freqs = 1 / 10000 ** (np.arange(0, 16, 2) / 16)
        y, z = (t.reshape(-1, 1) for t in np.meshgrid(np.arange(h), np.arange(w), indexing="ij"))
        angles = np.concatenate([y * freqs[::2], z * freqs[1::2]], -1)
        for i in range(3):
            r = f"vision_tower.transformer.layers.{i}."
            y = f.rms_norm(x, r + "attention_norm", 1e-5)
            q, k, u = (heads_of(f.linear(y, r + f"attention.{n}_proj", e, bias=False), 2) for n in "qkv")
            x = x + f.linear(attend(halves(q, angles), halves(k, angles), u), r + "attention.o_proj", e, bias=False)
            y = f.rms_norm(x, r + "ffn_norm", 1e-5)
            y = silu(f.linear(y, r + "feed_forward.gate_proj", 48, bias=False)) * f.linear(y, r + "feed_forward.up_proj", 48, bias=False)
            x = x + f.linear(y, r + "feed_forward.down_proj", e, bias=False)
        if merge == 2:
            x = f.rms_norm(x, p + "norm", 1e-5)
            x = torch.nn.functional.unfold(torch.tensor(x.reshape(h, w, e).transpose(2, 0, 1))[None], kernel_size=2, stride=2)[0].numpy().T
            x = f.linear(x, p + "patch_merger.merging_layer", e, bias=False)
        x = f.linear(gelu(f.linear(x, p + "linear_1", ROWS, bias=bias)), p + "linear_2", ROWS, bias=bias)
        lines = x.reshape(h // merge, w // merge, ROWS)
        between = f.get("language_model.model.embed_tokens.weight", 48, ROWS)[12]
        rows = np.concatenate([np.concatenate([line, between[None]]) for line in lines])
        f.write(name, rows[:-1])  # the last line's end is another token


def flat_patches(x, p):
    """[3, high, wide] -> [patches, p · p · 3], colours last."""
    c, h, w = x.shape
    return x.reshape(c, h // p, p, w // p, p).transpose(1, 3, 2, 4, 0).reshape(-1, p * p * c)


NONE = {"image_mean": [0.0] * 3, "image_std": [1.0] * 3, "do_normalize": False}


def gemma4():
    for name, clipped, standardize in (("gemma4v", False, True), ("gemma4v-clipped", True, False)):
        v = {"hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 16,
             "patch_size": 16, "pooling_kernel_size": 3, "position_embedding_size": 40, "rms_norm_eps": 1e-6, "hidden_activation": "gelu_pytorch_tanh",
             "standardize": standardize, "use_clipped_linears": clipped, "rope_parameters": {"rope_type": "default", "rope_theta": 100.0}}
        f = Folder("Gemma4ForConditionalGeneration", 480, 336, v, NONE)
        f.files["processor_config.json"] = {"image_processor": f.files.pop("preprocessor_config.json")}
        root, e, h, w = "model.vision_tower.", 32, 21, 30

        def linear(x, name, out):
            if not clipped:
                return f.linear(x, name + ".linear", out, bias=False)
            low, high = f.get(name + ".input_min", scale=0.3, offset=-1.5), f.get(name + ".input_max", scale=0.3, offset=1.5)
            y = f.linear(np.clip(x, low, high), name + ".linear", out, bias=False)
            return np.clip(y, f.get(name + ".output_min", scale=0.3, offset=-1.5), f.get(name + ".output_max", scale=0.3, offset=1.5))

        x = f.linear(2 * (flat_patches(f.pixels(), 16) - 0.5), root + "patch_embedder.input_proj", e, bias=False)
        table = f.get(root + "patch_embedder.position_embedding_table", 2, 40, e)
        row, column = np.divmod(np.arange(h * w), w)
        x = x + table[0][column] + table[1][row]
        freqs = 1 / 100 ** (np.arange(0, 8, 2) / 8)
        turn = lambda t: np.concatenate([halves(t[..., :8], column[:, None] * freqs), halves(t[..., 8:], row[:, None] * freqs)], -1)
        for i in range(2):
            p = f"{root}encoder.layers.{i}."
            y = f.rms_norm(x, p + "input_layernorm", 1e-6)
            q, k, u = (heads_of(linear(y, p + f"self_attn.{n}_proj", e), 2) for n in "qkv")
            q, k = turn(f.rms_norm(q, p + "self_attn.q_norm", 1e-6)), turn(f.rms_norm(k, p + "self_attn.k_norm", 1e-6))
            y = linear(attend(q, k, rms(u, 1e-6), scale=1), p + "self_attn.o_proj", e)
            x = x + f.rms_norm(y, p + "post_attention_layernorm", 1e-6)
            y = f.rms_norm(x, p + "pre_feedforward_layernorm", 1e-6)
            y = linear(gelu_tanh(linear(y, p + "mlp.gate_proj", 40)) * linear(y, p + "mlp.up_proj", 40), p + "mlp.down_proj", e)
            x = x + f.rms_norm(y, p + "post_feedforward_layernorm", 1e-6)
        pooled = np.zeros((h * w // 9, e))
        np.add.at(pooled, column // 3 + w // 3 * (row // 3), x / 9)
        x = pooled * math.sqrt(e)
        if standardize:
            x = (x - f.get(root + "std_bias", e)) * f.get(root + "std_scale", e, offset=1.0)
        f.write(name, f.linear(rms(x, 1e-6), "model.embed_vision.embedding_projection", ROWS, bias=False))


def gemma4_unified():
    v = {"mm_embed_dim": 20, "patch_size": 16, "pooling_kernel_size": 3, "model_patch_size": 48, "mm_posemb_size": 12, "rms_norm_eps": 1e-6}
    f = Folder("Gemma4UnifiedForConditionalGeneration", 480, 336, v, NONE, audio_config={"audio_embed_dim": 20})
    root, h, w = "model.vision_embedder.", 7, 10
    x = f.linear(f.layer_norm(flat_patches(f.pixels(), 48), root + "patch_ln1", 1e-5), root + "patch_dense", 20)
    table = f.get(root + "pos_embedding", 12, 2, 20)
    row, column = np.divmod(np.arange(h * w), w)
    x = f.layer_norm(x, root + "patch_ln2", 1e-5) + table[column, 0] + table[row, 1]
    x = f.layer_norm(x, root + "pos_norm", 1e-5)
    f.write("gemma4uv", f.linear(rms(x, 1e-6), "model.embed_vision.embedding_projection", ROWS, bias=False))


def internvl():
    for name in ("internvl", "internvl-hf"):
        own = name == "internvl"
        v = {"hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 4, "num_attention_heads": 2, "image_size": 56 if own else [56, 56],
             "patch_size": 14 if own else [14, 14], "layer_norm_eps": 1e-6, "hidden_act": "gelu", "norm_type": "layer_norm", "architectures": ["InternVisionModel"]}
        more = {"downsample_ratio": 0.5, "ps_version": "v2", "select_layer": -1, "min_dynamic_patch": 1, "max_dynamic_patch": 4} if own else {"downsample_ratio": 0.5}
        f = Folder("InternVLChatModel" if own else "InternVLForConditionalGeneration", 56, 56, v, {**IMAGENET, "min_patches": 1, "max_patches": 4}, **more)
        if own:
            f.config["llm_config"] = f.config.pop("text_config")
        root, e = ("vision_model." if own else "model.vision_tower."), 32
        x = f.convolve(root + ("embeddings.patch_embedding" if own else "embeddings.patch_embeddings.projection"), e, 14)
        x = np.concatenate([f.get(root + ("embeddings.class_embedding" if own else "embeddings.cls_token"), 1, 1, e)[0], x])
        x = x + f.get(root + ("embeddings.position_embedding" if own else "embeddings.position_embeddings"), 1, 17, e)[0]
        for i in range(4):
            p = root + (f"encoder.layers.{i}." if own else f"encoder.layer.{i}.")
            y = f.layer_norm(x, p + ("norm1" if own else "layernorm_before"), 1e-6)
            if own:
                q, k, u = np.split(f.linear(y, p + "attn.qkv", 3 * e), 3, -1)
            else:
                q, k, u = (f.linear(y, p + f"attention.{n}_proj", e) for n in "qkv")
            y = f.linear(attend(*(heads_of(t, 2) for t in (q, k, u))), p + ("attn.proj" if own else "attention.projection_layer"), e)
            x = x + y * f.get(p + ("ls1" if own else "lambda_1"), e, offset=0.5)
            y = f.layer_norm(x, p + ("norm2" if own else "layernorm_after"), 1e-6)
            y = f.linear(gelu(f.linear(y, p + "mlp.fc1", 40)), p + "mlp.fc2", e)
            x = x + y * f.get(p + ("ls2" if own else "lambda_2"), e, offset=0.5)
        x = x[1:].reshape(1, 4, 4, e)  # pixel_shuffle, version 2
        x = x.reshape(1, 4, 2, 2 * e).transpose(0, 2, 1, 3).reshape(1, 2, 2, 4 * e).transpose(0, 2, 1, 3).reshape(4, 4 * e)
        norm, first, second = ("mlp1.0", "mlp1.1", "mlp1.3") if own else (f"model.multi_modal_projector.{n}" for n in ("layer_norm", "linear_1", "linear_2"))
        x = f.layer_norm(x, norm, 1e-5)
        f.write(name, f.linear(gelu(f.linear(x, first, ROWS)), second, ROWS))


def lfm2():
    for name, norm, dropped in (("lfm2", True, 0), ("lfm2-plain", False, 1)):
        v = {"hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 3, "num_attention_heads": 2, "num_patches": 64, "patch_size": 16,
             "layer_norm_eps": 1e-6, "hidden_act": "gelu_pytorch_tanh", "model_type": "siglip2_vision_model"}
        f = Folder("Lfm2VlForConditionalGeneration", 320, 256, v, HALF, downsample_factor=2, vision_feature_layer=-1 - dropped)
        root, e, h, w = "model.vision_tower.vision_model.", 32, 16, 20
        x = f.linear(flat_patches(f.pixels(), 16), root + "embeddings.patch_embedding", e)
        table = torch.tensor(f.get(root + "embeddings.position_embedding.weight", 64, e).reshape(8, 8, e).transpose(2, 0, 1))[None]
        table = torch.nn.functional.interpolate(table, size=(h, w), mode="bilinear", align_corners=False, antialias=True)[0].numpy()
        x = siglip(f, root, x + table.reshape(e, -1).T)
        if dropped:
            v["num_hidden_layers"] += dropped
            for tensor in [t for t in f.tensors if ".layers.2." in t]:
                f.tensors[tensor.replace(".layers.2.", ".layers.3.")] = f.tensors[tensor]
        x = x.reshape(1, h, w, e)  # pixel_unshuffle
        x = x.reshape(1, h, w // 2, 2 * e).transpose(0, 2, 1, 3).reshape(1, w // 2, h // 2, 4 * e).transpose(0, 2, 1, 3).reshape(-1, 4 * e)
        p = "model.multi_modal_projector."
        if norm:
            x = f.layer_norm(x, p + "layer_norm", 1e-5)
        f.write(name, f.linear(gelu(f.linear(x, p + "linear_1", 36)), p + "linear_2", ROWS))


def glm4v():
    v = {"hidden_size": 32, "intermediate_size": 56, "depth": 2, "num_heads": 2, "image_size": 70, "patch_size": 14, "spatial_merge_size": 2,
         "temporal_patch_size": 2, "hidden_act": "silu", "rms_norm_eps": 1e-5, "out_hidden_size": ROWS, "attention_bias": False}
    f = Folder("Glm4vForConditionalGeneration", 112, 84, v, CLIP)
    root, e, side = "model.visual.", 32, 5
    x, h, w = qwen_patches(f, root + "patch_embed.proj", True)
    x = f.rms_norm(x, root + "post_conv_layernorm", 1e-5)
    table = torch.tensor(f.get(root + "embeddings.position_embedding.weight", side * side, e).reshape(side, side, e).transpose(2, 0, 1))[None]
    place = in_blocks(np.stack(np.meshgrid(np.arange(h), np.arange(w), indexing="ij"), -1), 2)
    at = np.stack([(place[:, 1] + 0.5) / w * 2 - 1, (place[:, 0] + 0.5) / h * 2 - 1], -1)
    at = torch.tensor(at)[None, :, None]
    x = x + torch.nn.functional.grid_sample(table, at, mode="bicubic", align_corners=False, padding_mode="border")[0, :, :, 0].numpy().T
    angles = qwen_angles(f, h, w, 2)
    for i in range(2):
        p = f"{root}blocks.{i}."
        y = f.rms_norm(x, p + "norm1", 1e-5)
        q, k, u = (heads_of(t, 2) for t in np.split(f.linear(y, p + "attn.qkv", 3 * e, bias=False), 3, -1))
        x = x + f.linear(attend(halves(q, angles), halves(k, angles), u), p + "attn.proj", e, bias=False)
        y = f.rms_norm(x, p + "norm2", 1e-5)
        y = silu(f.linear(y, p + "mlp.gate_proj", ROWS, bias=False)) * f.linear(y, p + "mlp.up_proj", ROWS, bias=False)
        x = x + f.linear(y, p + "mlp.down_proj", e, bias=False)
    x = f.rms_norm(x, root + "post_layernorm", 1e-5)
    x = torch.tensor(x.reshape(-1, 2, 2, e).transpose(0, 3, 1, 2))
    x = torch.nn.functional.conv2d(x, torch.tensor(f.get(root + "downsample.weight", ROWS, e, 2, 2)), torch.tensor(f.get(root + "downsample.bias", ROWS)), stride=2)
    p = root + "merger."
    x = gelu(f.layer_norm(f.linear(x.numpy().reshape(-1, ROWS), p + "proj", ROWS, bias=False), p + "post_projection_norm", 1e-5))
    y = silu(f.linear(x, p + "gate_proj", 56, bias=False)) * f.linear(x, p + "up_proj", 56, bias=False)
    f.write("glm4v", f.linear(y, p + "down_proj", ROWS, bias=False))


def kimi():
    v = {"vt_hidden_size": 32, "vt_intermediate_size": 44, "vt_num_hidden_layers": 3, "vt_num_attention_heads": 2, "patch_size": 14, "init_pos_emb_height": 5,
         "init_pos_emb_width": 7, "init_pos_emb_time": 4, "merge_kernel_size": [2, 2], "projector_hidden_act": "gelu", "projector_ln_eps": 1e-5, "mm_hidden_size": 32,
         "text_hidden_size": ROWS}
    f = Folder("KimiK25ForConditionalGeneration", 112, 84, v, CLIP)
    f.files["preprocessor_config.json"] = {"media_proc_cfg": {**CLIP, "in_patch_limit": 256, "patch_size": 14}}
    root, e, h, w = "vision_tower.", 32, 6, 8
    x = f.convolve(root + "patch_embed.proj", e, 14)
    table = torch.tensor(f.get(root + "patch_embed.pos_emb.weight", 5, 7, e).transpose(2, 0, 1))[None]
    table = torch.nn.functional.interpolate(table, size=(h, w), mode="bicubic")[0].numpy()
    f.get(root + "patch_embed.pos_emb.time_weight", 4, 1, e)
    x = x + table.reshape(e, -1).T
    row, column = np.divmod(np.arange(h * w), w)
    freqs = 1 / 10000 ** (np.arange(0, 16, 4) / 16)
    angles = np.stack([column[:, None] * freqs, row[:, None] * freqs], -1).reshape(h * w, -1)
    for i in range(3):
        p = f"{root}encoder.blocks.{i}."
        q, k, u = (heads_of(t, 2) for t in np.split(f.linear(f.layer_norm(x, p + "norm0", 1e-5), p + "wqkv", 3 * e), 3, -1))
        x = x + f.linear(attend(neighbours(q, angles), neighbours(k, angles), u), p + "wo", e)
        x = x + f.linear(gelu_tanh(f.linear(f.layer_norm(x, p + "norm1", 1e-5), p + "mlp.fc0", 44)), p + "mlp.fc1", e)
    x = f.layer_norm(x, root + "encoder.final_layernorm", 1e-5)
    x = x.reshape(h // 2, 2, w // 2, 2, e).transpose(0, 2, 1, 3, 4).reshape(-1, 4, e)
    x = f.layer_norm(x, "mm_projector.pre_norm", 1e-5).reshape(-1, 4 * e)
    f.write("kimik25", f.linear(gelu(f.linear(x, "mm_projector.proj.0", 4 * e)), "mm_projector.proj.2", ROWS))


def llama4():
    v = {"hidden_size": 32, "intermediate_size": 44, "num_hidden_layers": 3, "num_attention_heads": 2, "image_size": 56, "patch_size": 14, "norm_eps": 1e-5,
         "pixel_shuffle_ratio": 0.5, "hidden_act": "gelu", "rope_theta": 10000, "projector_input_dim": 36, "projector_output_dim": 28, "vision_output_dim": 28}
    f = Folder("Llama4ForConditionalGeneration", 56, 56, v, HALF)
    root, e, side = "vision_model.", 32, 4
    x = torch.nn.functional.unfold(torch.tensor(f.pixels())[None], kernel_size=14, stride=14)[0].numpy().T
    x = f.linear(x, root + "patch_embedding.linear", e, bias=False)
    x = np.concatenate([x, f.get(root + "class_embedding", e)[None]]) + f.get(root + "positional_embedding_vlm", side * side + 1, e)
    x = f.layer_norm(x, root + "layernorm_pre", 1e-5)
    place = np.concatenate([np.arange(side * side), [-2]])
    freqs = 1 / 10000 ** (np.arange(0, 8, 2)[:4] / 8)
    turns = [np.repeat(((p + 1)[:, None] * freqs), 2, -1) for p in (place % side, place // side)]
    angles = np.where(place[:, None] < 0, 0, np.concatenate(turns, -1)[:, ::2])
    for i in range(3):
        p = f"{root}model.layers.{i}."
        y = f.layer_norm(x, p + "input_layernorm", 1e-5)
        q, k, u = (heads_of(f.linear(y, p + f"self_attn.{n}_proj", e), 2) for n in "qkv")
        x = x + f.linear(attend(neighbours(q, angles), neighbours(k, angles), u), p + "self_attn.o_proj", e)
        x = x + f.linear(gelu(f.linear(f.layer_norm(x, p + "post_attention_layernorm", 1e-5), p + "mlp.fc1", 44)), p + "mlp.fc2", e)
    x = f.layer_norm(x, root + "layernorm_post", 1e-5)[:-1].reshape(1, side, side, e)
    x = x.reshape(1, side, side // 2, 2 * e).transpose(0, 2, 1, 3).reshape(1, side // 2, side // 2, 4 * e).transpose(0, 2, 1, 3).reshape(-1, 4 * e)
    x = gelu(f.linear(gelu(f.linear(x, root + "vision_adapter.mlp.fc1", 36, bias=False)), root + "vision_adapter.mlp.fc2", 28, bias=False))
    f.write("llama4", f.linear(x, "multi_modal_projector.linear_1", ROWS, bias=False))


if __name__ == "__main__":
    for tower in (gemma3, qwen2, qwen25, qwen3, pixtral, gemma4, gemma4_unified, internvl, lfm2, glm4v, kimi, llama4):
        tower()
