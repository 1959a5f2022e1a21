package synth

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/convert/lineage"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Sizes of hyper-connections and of compressed attention in synthetic models. Layers have short blocks, long ones and
// none in turn.
const (
	hyperStreams = 4
	hyperRounds  = 3
	outputLow    = 32
	blockTheta   = 40000
	longBlock    = 128
)

func block(layer int) int { return []int{lineage.ShortBlock, longBlock, 0}[layer%3] }

// groups returns how many groups of heads there are.
func (m *model) groups() int { return 2 - m.Heads%2 }

// connectionKeys returns the keys of hyper-connections and compressed attention.
func (m *model) connectionKeys(a func(string) string) (keys []gguf.KV) {
	if !m.fam.HyperConnected() {
		return nil
	}
	add := func(key string, v any) { keys = append(keys, gguf.KV{Key: a(key), Value: v}) }
	add("hyper_connection.count", uint32(hyperStreams))
	add("hyper_connection.epsilon", float32(1e-4))
	add("expert_weights_norm", true)
	if !m.fam.Compresses() {
		add("hyper_connection.magnitude", float32(1))
		return keys
	}
	add("hyper_connection.sinkhorn_iterations", uint32(hyperRounds))
	add("hash_layer_count", uint32(1))
	add("expert_weights_scale", float32(1.5)) // llama.cpp requires these
	add("swiglu_clamp_exp", slices.Repeat([]float32{0}, m.Layers))
	ratios := make([]uint32, m.Layers)
	for l := range ratios {
		ratios[l] = uint32(block(l))
	}
	add("attention.compress_ratios", ratios)
	add("attention.compress_rope_freq_base", float32(blockTheta))
	add("attention.output_group_count", uint32(m.groups()))
	add("attention.output_lora_rank", uint32(outputLow))
	add("attention.q_lora_rank", uint32(m.QueryLatent))
	add("attention.indexer.head_count", uint32(m.indexHeads()))
	add("attention.indexer.key_length", uint32(m.indexKey()))
	add("attention.indexer.top_k", uint32(indexTop))
	return keys
}

// rest lists the tensors of a block, or outside of blocks, that follow no law. Norms are about 1, others are random
// numbers that keep the size of their inputs. Hyper-connections read, write and mix the streams about evenly.
func (m *model) rest(prefix string, layer int, of []lineage.Tensor) {
	if !m.fam.HyperConnected() {
		return
	}
	for _, t := range of {
		name, stem := prefix+t.Name, strings.TrimSuffix(t.Name, ".weight")
		compressed := strings.Contains(stem, "compressor") || strings.HasPrefix(stem, "indexer.")
		if with := m.mixed(layer); with && lineage.InsteadOfExperts(t.Name) || !with && lineage.OfExperts(t.Name) {
			continue
		}
		listed := slices.ContainsFunc(m.out, func(s gguf.Source) bool { return s.Name == name })
		if listed || t.Optional && !compressed && !m.chooses(t.Name, layer) && stem != "ffn_gate_tid2eid" || t.Change == lineage.Computed {
			continue
		}
		shape := m.shapes[name]
		if shape == nil {
			continue
		}
		rows, cols := cells(shape)
		switch {
		case stem == "ffn_gate_tid2eid":
			m.given(name, rows, cols)
		case strings.HasSuffix(stem, "_norm"):
			m.random(name, cols, 1, 0.02)
		case len(shape) == 1:
			m.random(name, cols, 0, 0.2)
		default:
			k, deviation := m.stream(name), float32(1/math.Sqrt(float64(cols)))
			typ := m.Type
			if cols%typ.BlockElems() != 0 || strings.HasPrefix(stem, "hc_") || strings.HasPrefix(stem, "output_hc") || strings.HasSuffix(stem, "_ape") {
				typ = quant.F32
			}
			m.out = append(m.out, source(name, typ, rows, cols, m.space.k, func(i int, row, _ []float32) {
				for e := range row {
					row[e] = deviation * k.normal(i*cols+e)
				}
			}))
		}
	}
}

// given lists the experts of each token: different ones.
func (m *model) given(name string, rows, cols int) {
	k := m.stream(name)
	m.out = append(m.out, gguf.Source{Name: name, Type: quant.I32, Shape: []int{cols, rows}, Write: func(w io.Writer) error {
		var data []byte
		for i := range rows {
			first := k.bits(i) % uint64(m.Experts)
			for c := range cols {
				data = binary.LittleEndian.AppendUint32(data, uint32((first+uint64(c))%uint64(m.Experts)))
			}
		}
		_, err := w.Write(data)
		return err
	}})
}

// blockName is the prefix of a layer's tensors.
func blockName(layer int) string { return fmt.Sprintf("blk.%d.", layer) }
