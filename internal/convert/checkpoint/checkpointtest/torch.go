// Package checkpointtest writes small files in PyTorch's form for tests.
package checkpointtest

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Tensor is a tensor of a file to be written.
type Tensor struct {
	Name   string // in a state dict
	DType  string // F32, F16, BF16 or I64
	Shape  []int  // outermost dimension first
	Values []float64
}

// Pickle returns the data.pkl of a state dict as torch.save writes it in protocol 2 or, if bare, of the only tensor.
func Pickle(tensors []Tensor, bare bool) []byte {
	b := []byte{0x80, 2}
	text := func(s string) {
		b = append(binary.LittleEndian.AppendUint32(append(b, 'X'), uint32(len(s))), s...)
	}
	number := func(n int) { b = binary.LittleEndian.AppendUint32(append(b, 'J'), uint32(n)) }
	name := func(module, n string) { b = append(b, "c"+module+"\n"+n+"\n"...) }
	numbers := func(v []int) {
		b = append(b, '(')
		for _, n := range v {
			number(n)
		}
		b = append(b, 't')
	}
	if !bare {
		name("collections", "OrderedDict")
		b = append(b, ")Rq\x00("...)
	}
	for i, x := range tensors {
		if !bare {
			text(x.Name)
		}
		strides, n := make([]int, len(x.Shape)), 1
		for d := len(x.Shape) - 1; d >= 0; d-- {
			strides[d] = n
			n *= x.Shape[d]
		}
		name("torch._utils", "_rebuild_tensor_v2")
		b = append(b, "(("...)
		text("storage")
		name("torch", map[string]string{"F32": "FloatStorage", "F16": "HalfStorage", "BF16": "BFloat16Storage", "I64": "LongStorage"}[x.DType])
		text(string(rune('0' + i)))
		text("cuda:0")
		number(n)
		b = append(b, "tQK\x00"...)
		numbers(x.Shape)
		numbers(strides)
		b = append(b, 0x89)
		name("collections", "OrderedDict")
		b = append(b, ")RtR"...)
	}
	if !bare {
		b = append(b, "u}"...)
		text("_metadata")
		name("collections", "OrderedDict")
		b = append(b, ")Rsb"...)
	}
	return append(b, '.')
}

// Archive packs a pickle and the records of tensors as torch.save does; method is zip.Store in real files.
func Archive(pickle []byte, method uint16, tensors []Tensor) []byte {
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	add := func(name string, content []byte) {
		w, err := z.CreateHeader(&zip.FileHeader{Name: "model_0/" + name, Method: method})
		if err == nil {
			_, err = w.Write(content)
		}
		if err != nil {
			panic(err)
		}
	}
	add("data.pkl", pickle)
	add("byteorder", []byte("little"))
	for i, x := range tensors {
		var b []byte
		for _, v := range x.Values {
			switch x.DType {
			case "F32":
				b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(v)))
			case "F16":
				b = binary.LittleEndian.AppendUint16(b, quant.F16FromF32(float32(v)))
			case "BF16":
				b = binary.LittleEndian.AppendUint16(b, quant.BF16FromF32(float32(v)))
			case "I64":
				b = binary.LittleEndian.AppendUint64(b, uint64(int64(v)))
			}
		}
		add("data/"+string(rune('0'+i)), b)
	}
	add("version", []byte("3\n"))
	if err := z.Close(); err != nil {
		panic(err)
	}
	return out.Bytes()
}

// SaveTorch writes a file of torch.save at path.
func SaveTorch(t *testing.T, path string, bare bool, tensors ...Tensor) {
	t.Helper()
	if err := os.WriteFile(path, Archive(Pickle(tensors, bare), zip.Store, tensors), 0o644); err != nil {
		t.Fatal(err)
	}
}
