package bundle

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/bits"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/prepared"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// version is the form of bundle files that this package writes and reads.
const version = 1

const keyVersion = "powerinfer.bundle.version"

// Architecture is general.architecture of bundle files, so that no program mistakes one for a model.
const Architecture = "powerinfer-neurons"

// A disk reads whole blocks of block bytes. A stride is a multiple of least bytes.
const (
	block = 4096
	least = 512
)

// Part is a matrix with a row for each neuron.
type Part int

// The parts, in the order in which a neuron stores them.
const (
	Gate Part = iota
	Up
	Down // the row of the transposed down projection
	parts
)

func (p Part) String() string { return [...]string{"gate", "up", "down"}[p] }

// layer is the place of a layer's neurons.
type layer struct {
	number  int
	neurons int
	rows    [parts]*gguf.Tensor // [n_embd, n_ff], in the model; nil: the layer has no such part
	at      [parts]int64        // of the part's row, from the neuron's first byte
	bytes   int64               // of a neuron, without padding
	stride  int64               // from a neuron to the next one
	offset  int64               // of neuron 0 in the file
	sums    int64               // offset of the checksums [n_ff, parts] in the file
}

// end returns where the next layer may begin.
func (l *layer) end() int64 {
	return (l.sums + int64(l.neurons)*sumsBytes + block - 1) / block * block
}

// sumsBytes are those of a neuron's checksums.
const sumsBytes = int64(parts) * 4

// layout is the layout of a model's bundle file.
type layout struct {
	layers []layer
	head   []byte // everything before the first neuron; it also identifies the model and all places
	size   int64  // of the file
}

// identity is a SHA-256 of all that decides the file's content.
func (y *layout) identity() [sha256.Size]byte { return sha256.Sum256(y.head) }

// layoutOf returns the layout of the bundle file of f, a model with rows for neurons.
func layoutOf(f *gguf.File) (*layout, error) {
	y := &layout{}
	var all []*gguf.Tensor
	var tensors []gguf.Source
	for n := range len(f.Tensors) { // there are fewer layers than tensors
		l := layer{number: n}
		if err := l.find(f); err != nil {
			return nil, err
		}
		if l.rows[Down] == nil {
			continue
		}
		for _, t := range l.rows {
			if t != nil {
				all = append(all, t)
			}
		}
		tensors = append(
			tensors,
			gguf.Source{Name: fmt.Sprintf("blk.%d.neurons", n), Type: quant.I32, Shape: []int{int(l.stride / 4), l.neurons}},
			gguf.Source{Name: fmt.Sprintf("blk.%d.checksums", n), Type: quant.I32, Shape: []int{int(parts), l.neurons}},
		)
		y.layers = append(y.layers, l)
	}
	if len(y.layers) == 0 {
		return nil, fmt.Errorf("%s: no layer has its down projection by neuron, so that neurons cannot stay on disk; powerinfer prepare makes a file of the model that has", f.Path)
	}
	digest := f.DigestOf(all)
	keys := []gguf.KV{
		gguf.TypeOfNeurons(),
		{Key: "general.architecture", Value: Architecture},
		{Key: "general.alignment", Value: uint32(block)},
		{Key: keyVersion, Value: uint32(version)},
		{Key: "powerinfer.bundle.model.digest", Value: hex.EncodeToString(digest[:])},
	}
	for p := range parts {
		keys = append(keys, gguf.KV{Key: fmt.Sprintf("powerinfer.bundle.%s_bytes", p), Value: y.partBytes(p)})
	}
	var offsets []int64
	var err error
	if y.head, offsets, y.size, err = gguf.Layout("GGUF", keys, tensors); err != nil {
		return nil, fmt.Errorf("%s: its neurons cannot be written to a file: %w", f.Path, err)
	}
	for i := range y.layers {
		y.layers[i].offset, y.layers[i].sums = offsets[2*i], offsets[2*i+1]
	}
	return y, nil
}

// partBytes lists the bytes of a part of a neuron, layer by layer.
func (y *layout) partBytes(p Part) []int32 {
	var list []int32
	for i := range y.layers {
		list = append(list, int32(y.layers[i].partBytes(p)))
	}
	return list
}

// partBytes returns the bytes of a part of a neuron; 0: the layer has none.
func (l *layer) partBytes(p Part) int {
	if t := l.rows[p]; t != nil {
		return t.Type.RowBytes(t.Shape[0])
	}
	return 0
}

// find finds the rows of layer l in f. It finds none if the down projection does not have a row for each neuron.
func (l *layer) find(f *gguf.File) error {
	down := f.Tensor(fmt.Sprintf("blk.%d.ffn_down_t.weight", l.number))
	if down == nil {
		return nil
	}
	rows := prepared.RowsOf(f, l.number, false)
	gated := f.Tensor(fmt.Sprintf("blk.%d.ffn_gate.weight", l.number)) != nil
	if gated || rows.Up != nil && rows.Up.Rows() == 2*down.Rows() {
		rows = prepared.RowsOf(f, l.number, true)
	}
	if rows.Up == nil {
		return fmt.Errorf("%s: tensor \"blk.%d.ffn_up.weight\" is missing", f.Path, l.number)
	}
	l.rows = [parts]*gguf.Tensor{rows.Gate, rows.Up, down}
	l.neurons = down.Rows()
	for p, t := range l.rows {
		if t == nil {
			continue
		}
		if len(t.Shape) != 2 || t.Shape[0] != down.Shape[0] || t.Shape[1] != down.Shape[1] {
			return fmt.Errorf("%s: tensor %q has shape %v, and %q has %v", f.Path, t.Name, t.Shape, down.Name, down.Shape)
		}
		l.at[p] = l.bytes
		l.bytes += int64(l.partBytes(Part(p)))
	}
	const most = 1 << 30 // far more than any model has
	if l.bytes > most {
		return fmt.Errorf("%s: a neuron of layer %d takes %d bytes", f.Path, l.number, l.bytes)
	}
	l.stride = strideOf(l.bytes)
	return nil
}

// strideOf returns the distance between neurons of n bytes. If that takes at most a quarter more room, no neuron
// touches more blocks of the disk than it must. For that, neurons begin at multiples of a power of two that is at least
// the rest of n after whole blocks, so they touch as few blocks as neurons that begin at a block.
func strideOf(n int64) int64 {
	rest := (n-1)%block + 1
	unit := max(int64(1)<<bits.Len64(uint64(rest-1)), least)
	if stride := n - rest + unit; stride-n <= n/4 {
		return stride
	}
	return (n + least - 1) / least * least
}

// differs returns why a file that begins with head does not match y's header.
func differs(head []byte) string {
	if !gguf.NeuronsKind().Is(head) {
		return "it is not a file of a model's neurons"
	}
	_, value, ok := bytes.Cut(head, []byte(keyVersion))
	const kind = 4 // bytes of the value's type
	if !ok || len(value) < kind+4 || binary.LittleEndian.Uint32(value[kind:]) != version {
		return "another version of powerinfer wrote it"
	}
	return "it was made from another model"
}
