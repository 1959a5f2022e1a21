package gguf

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/atomicfile"
)

// ModelKind is the kind of models and adapters, which may replace each other.
func ModelKind() atomicfile.Kind {
	return atomicfile.Kind{Name: "a model in the form of GGUF", Shared: true, Is: func(head []byte) bool {
		return begins(head) && !ofMatrix(head) && !ofStatistics(head)
	}}
}

// MatrixKind is the kind of importance matrices.
func MatrixKind() atomicfile.Kind {
	return atomicfile.Kind{Name: "an importance matrix in the form of GGUF", Shared: true, Is: func(head []byte) bool { return begins(head) && ofMatrix(head) }}
}

// StatisticsKind is the kind of statistics of neurons and experts.
func StatisticsKind() atomicfile.Kind {
	return atomicfile.Kind{Name: "a file of statistics that powerinfer profile wrote", Shared: true, Is: func(head []byte) bool { return begins(head) && ofStatistics(head) }}
}

func begins(head []byte) bool {
	return bytes.HasPrefix(head, []byte("GGUF")) || bytes.HasPrefix(head, []byte("PWRI"))
}

const (
	typeKey    = "general.type"
	typeMatrix = "imatrix"
	ownKeys    = "powerinfer." // prefix of the keys of statistics
)

// ofMatrix reports whether head is the beginning of an importance matrix, which its first key says.
func ofMatrix(head []byte) bool {
	_, value, ok := bytes.Cut(head, []byte(typeKey))
	text := binary.LittleEndian.AppendUint64([]byte{kindString, 0, 0, 0}, uint64(len(typeMatrix)))
	return ok && bytes.HasPrefix(value, append(text, typeMatrix...))
}

// ofStatistics reports whether head is the beginning of a file without tensors and with keys of this program.
func ofStatistics(head []byte) bool {
	const tensors = 8 // where their number is
	return len(head) > tensors+8 && binary.LittleEndian.Uint64(head[tensors:]) == 0 && bytes.Contains(head, []byte(ownKeys))
}

// contentKind returns the kind of a file with these keys and tensors.
func contentKind(keys []KV, tensors []Source) atomicfile.Kind {
	switch {
	case slices.ContainsFunc(keys, func(kv KV) bool { return kv.Key == typeKey && kv.Value == typeMatrix }):
		return MatrixKind()
	case len(tensors) == 0 && slices.ContainsFunc(keys, func(kv KV) bool { return strings.HasPrefix(kv.Key, ownKeys) }):
		return StatisticsKind()
	}
	return ModelKind()
}
