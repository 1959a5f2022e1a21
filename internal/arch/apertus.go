package arch

import (
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// apertus describes Apertus: norms of each head of queries and keys, and xIELU without a gate. Folders are not converted:
// their files hold the activation's numbers as weights.
func apertus() Family {
	f := llama()
	f.Name, f.HuggingFace, f.Original = "apertus", nil, ""
	f.Rotation, f.Gated, f.Activation = HalvesApart, false, compute.XIELU
	f.Block = ungated(headNorms(llamaBlock(Same)))
	return f
}

// openELM describes OpenELM, whose layers differ in their heads. Folders are not converted.
func openELM() Family {
	f := llama()
	f.Name, f.HuggingFace, f.Original = "openelm", nil, ""
	f.Rotation, f.AlwaysTied, f.UsualEps = HalvesApart, true, 1e-6
	f.Block = headNorms(llamaBlock(Same))
	return f
}

// deci describes DeciLM and the Nemotrons that a search made of Llama. Folders are not converted.
func deci() Family {
	f := llama()
	f.Name, f.HuggingFace, f.Original = "deci", nil, ""
	return f
}

// bitNet describes BitNet b1.58: norms before the last products of attention and of feed-forward layers. Folders are not
// converted: their weights are not of three values yet.
func bitNet() Family {
	f := llama()
	f.Name, f.HuggingFace, f.Original = "bitnet", nil, ""
	f.Rotation, f.AlwaysTied = HalvesApart, true
	f.Block = slices.DeleteFunc(llamaBlock(Same), func(t Tensor) bool { return strings.HasSuffix(t.Name, ".bias") })
	f.Block = append(f.Block, Tensor{Name: "attn_sub_norm.weight", Source: "self_attn.attn_sub_norm.weight"}, Tensor{Name: "ffn_sub_norm.weight", Source: "mlp.ffn_sub_norm.weight"})
	return f
}
