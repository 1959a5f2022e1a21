package gguf

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
)

// digestSample is the number of bytes that Digest reads at the beginning and in the middle of each tensor's data.
const digestSample = 64

// Digest returns a SHA-256 of f's metadata, of the names, types and shapes of its tensors, and of samples of their
// data, so that fine-tuned models differ. It reads a few pages of the file for each tensor, not the whole file.
func (f *File) Digest() [sha256.Size]byte {
	h := sha256.New()
	for _, kv := range f.Keys {
		b := appendText(nil, kv.Key)
		if v, err := appendValue(b, kv.Value); err == nil {
			b = v
		}
		h.Write(b)
	}
	f.samples(h, f.Tensors)
	return [sha256.Size]byte(h.Sum(nil))
}

// DigestOf is Digest of some of f's tensors. Changed or overridden metadata does not affect it.
func (f *File) DigestOf(tensors []*Tensor) [sha256.Size]byte {
	h := sha256.New()
	f.samples(h, tensors)
	return [sha256.Size]byte(h.Sum(nil))
}

// samples adds tensors' names, types, shapes and samples of their data to h.
func (f *File) samples(h hash.Hash, tensors []*Tensor) {
	defer f.scattered()()
	for _, t := range tensors {
		b := appendText(nil, t.Name)
		b = fmt.Append(b, t.Type, t.Shape)
		b = binary.LittleEndian.AppendUint64(b, uint64(len(t.Data)))
		b = append(b, t.Data[:min(digestSample, len(t.Data))]...)
		middle := t.Data[len(t.Data)/2:]
		h.Write(append(b, middle[:min(digestSample, len(middle))]...))
	}
}
