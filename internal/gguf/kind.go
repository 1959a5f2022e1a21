package gguf

import (
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/atomicfile"
)

// ModelKind is the kind of models and adapters; they may replace each other.
func ModelKind() atomicfile.Kind {
	return atomicfile.Kind{Name: "a model in the form of GGUF", Shared: true, Is: func(head []byte) bool {
		return begins(head) && !ofType(head, typeMatrix) && !ofType(head, typeNeurons) && !ofStatistics(head)
	}}
}

// MatrixKind is the kind of importance matrices.
func MatrixKind() atomicfile.Kind {
	return atomicfile.Kind{Name: "an importance matrix in the form of GGUF", Shared: true, Is: func(head []byte) bool { return begins(head) && ofType(head, typeMatrix) }}
}

// StatisticsKind is the kind of statistics of neurons and experts.
func StatisticsKind() atomicfile.Kind {
	return atomicfile.Kind{Name: "a file of statistics that powerinfer profile wrote", Shared: true, Is: func(head []byte) bool { return begins(head) && ofStatistics(head) }}
}

// NeuronsKind is the kind of files that store the rows of each neuron together.
func NeuronsKind() atomicfile.Kind {
	return atomicfile.Kind{Name: "a file of a model's neurons", Shared: true, Is: func(head []byte) bool { return begins(head) && ofType(head, typeNeurons) }}
}

func begins(head []byte) bool {
	return bytes.HasPrefix(head, []byte("GGUF")) || bytes.HasPrefix(head, []byte("PWRI"))
}

const (
	typeKey     = "general.type"
	typeMatrix  = "imatrix"
	typeNeurons = "neurons"
	ownKeys     = "powerinfer." // prefix of the keys of statistics
)

// NeuronsSuffix is added to the name of a model's file for its file of neurons. Lists of models leave such files out.
const NeuronsSuffix = ".neurons"

// TypeOfNeurons is the key that says that a file is of NeuronsKind. It is the file's first.
func TypeOfNeurons() KV { return KV{typeKey, typeNeurons} }

// ofType reports whether head is the beginning of a file of that type, according to its first key.
func ofType(head []byte, name string) bool {
	_, value, ok := bytes.Cut(head, []byte(typeKey))
	text := binary.LittleEndian.AppendUint64([]byte{kindString, 0, 0, 0}, uint64(len(name)))
	return ok && bytes.HasPrefix(value, append(text, name...))
}

// Architecture returns the architecture that the file at path names in its first keys; empty: none, or it cannot be read.
func Architecture(path string) string {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	head, _ := io.ReadAll(io.LimitReader(f, atomicfile.Head))
	_, value, _ := bytes.Cut(head, []byte("general.architecture"))
	const before = 4 + 8 // bytes of the value's type and of the text's length
	if !begins(head) || len(value) < before || binary.LittleEndian.Uint32(value) != kindString {
		return ""
	}
	text := value[before:]
	return string(text[:min(uint64(len(text)), binary.LittleEndian.Uint64(value[4:]))])
}

// ofStatistics reports whether head is the beginning of a file without tensors and with keys of this program.
func ofStatistics(head []byte) bool {
	const tensors = 8 // where their number is
	return len(head) > tensors+8 && binary.LittleEndian.Uint64(head[tensors:]) == 0 && bytes.Contains(head, []byte(ownKeys))
}

// contentKind returns the kind of a file with these keys and tensors.
func contentKind(keys []KV, tensors []Source) atomicfile.Kind {
	is := func(name string) bool { return slices.Contains(keys, KV{typeKey, name}) }
	switch {
	case is(typeMatrix):
		return MatrixKind()
	case is(typeNeurons):
		return NeuronsKind()
	case len(tensors) == 0 && slices.ContainsFunc(keys, func(kv KV) bool { return strings.HasPrefix(kv.Key, ownKeys) }):
		return StatisticsKind()
	}
	return ModelKind()
}
