package convert

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// What PyTorch itself wrote, in every element type and several protocols.
func TestTorchWroteIt(t *testing.T) {
	// Floating values are rounded to the type; half of a last place of 8 in F16 and BF16.
	tolerance := map[string]float64{"float32": 1e-6, "float16": 1.0 / 512, "bfloat16": 1.0 / 64}
	floats, ints := []float64{1.2, -3.4, 5.6, -7.8}, []float64{1, -2, 3, -4}
	for name, want := range map[string][]float64{
		"float32_proto2": floats, "float16_proto2": floats, "bfloat16_proto5": floats, "float64_proto3": floats,
		"int64_proto4": ints, "int32_proto2": ints, "int16_proto3": ints, "int8_proto5": ints,
		"uint8_proto2": {1, 10, 100, 255}, "bool_proto4": {1, 0, 1, 0},
	} {
		f, err := openTorch(filepath.Join("testdata", "torch", "tensor_"+name+"_zip.pt"))
		if err != nil {
			t.Error(err)
			continue
		}
		x, err := f.tensor()
		if err != nil {
			t.Error(err)
			continue
		}
		got, err := x.numbers()
		if err != nil || len(got) != len(want) || !slices.Equal(x.shape, []int{4}) {
			t.Errorf("%s: %v %v %v", name, x.shape, got, err)
			continue
		}
		typ, _, _ := strings.Cut(name, "_")
		for i := range want {
			if math.Abs(got[i]-want[i]) > tolerance[typ] {
				t.Errorf("%s: element %d is %g, not %g", name, i, got[i], want[i])
			}
		}
		f.Close()
	}
	_, err := openTorch(filepath.Join("testdata", "torch", "tensor_float32_proto2.pt"))
	if err == nil || !strings.Contains(err.Error(), "before 1.6") {
		t.Errorf("the old form: %v", err)
	}
}

// saved is a tensor for a file in the making.
type saved struct {
	name   string // in a state dict
	dtype  string
	shape  []int
	values []float64
}

// pickleOf writes what torch.save writes of a state dict in protocol 2 or, where bare, of its only tensor.
func pickleOf(tensors []saved, bare bool) []byte {
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
			text(x.name)
		}
		strides, n := make([]int, len(x.shape)), 1
		for d := len(x.shape) - 1; d >= 0; d-- {
			strides[d] = n
			n *= x.shape[d]
		}
		name("torch._utils", "_rebuild_tensor_v2")
		b = append(b, "(("...)
		text("storage")
		name("torch", map[string]string{"F32": "FloatStorage", "F16": "HalfStorage", "BF16": "BFloat16Storage", "I64": "LongStorage"}[x.dtype])
		text(string(rune('0' + i)))
		text("cuda:0")
		number(n)
		b = append(b, "tQK\x00"...)
		numbers(x.shape)
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

// archiveOf packs a pickle and its records as torch.save does.
func archiveOf(pickle []byte, method uint16, tensors []saved) []byte {
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
		for _, v := range x.values {
			switch x.dtype {
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

func saveTorch(t *testing.T, path string, bare bool, tensors ...saved) {
	t.Helper()
	if err := os.WriteFile(path, archiveOf(pickleOf(tensors, bare), zip.Store, tensors), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestStateDict(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.pt")
	a := saved{"a.weight", "F32", []int{2, 3}, []float64{1, 2, 3, 4, 5, 6}}
	b := saved{"b", "F16", []int{1}, []float64{-0.5}}
	saveTorch(t, path, false, a, b)
	f, err := openTorch(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all, err := f.stateDict()
	if err != nil || len(all) != 2 {
		t.Fatal(all, err)
	}
	for _, want := range []saved{a, b} {
		x := all[want.name]
		got, err := x.numbers()
		if err != nil || x.dtype != want.dtype || !slices.Equal(x.shape, want.shape) || !slices.Equal(got, want.values) {
			t.Errorf("%s: %+v %v %v", want.name, x, got, err)
		}
	}
	if _, err := f.tensor(); err == nil {
		t.Error("a state dict was taken for a tensor")
	}
}

// A folder in PyTorch's form, in one file or in two with an index, is converted to the same bytes as in safetensors.
func TestTorchCheckpoint(t *testing.T) {
	f := tinyLlama(t, "LlamaForCausalLM", nil)
	f.save(t, 1, tinyVocab)
	bytesOf := func() []byte {
		t.Helper()
		out := filepath.Join(t.TempDir(), "out.gguf")
		if err := HuggingFace(f.dir, out, Options{OutType: quant.F16, Name: "tiny"}); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	want := bytesOf()
	remove(t, f, "model.safetensors")
	names := slices.Sorted(maps.Keys(f.tensors))
	shards, index := make([][]saved, 2), map[string]string{}
	for i, name := range names {
		x := f.tensors[name]
		s := saved{name, x.dtype, x.shape, make([]float64, len(x.values))}
		for j, v := range x.values {
			s.values[j] = float64(v)
		}
		shards[i%2] = append(shards[i%2], s)
		index[name] = fmt.Sprintf("pytorch_model-%05d-of-00002.bin", i%2+1)
	}
	for i, s := range shards {
		saveTorch(t, filepath.Join(f.dir, fmt.Sprintf("pytorch_model-%05d-of-00002.bin", i+1)), false, s...)
	}
	f.writeJSON(t, "pytorch_model.bin.index.json", map[string]any{"weight_map": index})
	if !bytes.Equal(bytesOf(), want) {
		t.Error("two files make another model than safetensors")
	}
	saveTorch(t, filepath.Join(f.dir, "pytorch_model.bin"), false, slices.Concat(shards...)...)
	if !bytes.Equal(bytesOf(), want) {
		t.Error("one file makes another model than safetensors")
	}
}

// Damaged and hostile files are one line that names the file.
func TestHostileTorch(t *testing.T) {
	x := saved{"w", "F32", []int{2, 2}, []float64{1, 2, 3, 4}}
	good := pickleOf([]saved{x}, false)
	replace := func(old, by string) []byte {
		if !bytes.Contains(good, []byte(old)) {
			t.Fatalf("%q is not in the pickle", old)
		}
		return bytes.Replace(good, []byte(old), []byte(by), 1)
	}
	cases := map[string]struct {
		pickle []byte
		want   string
	}{
		"empty":            {nil, "offset 0: 1 bytes are read where 0 are left"},
		"cut":              {good[:len(good)-1], "1 bytes are read where 0 are left"},
		"code":             {[]byte("\x80\x02cos\nsystem\n(X\x04\x00\x00\x00exittR."), `offset 24: "os.system" is called, which is no part of tensors`},
		"class":            {[]byte("\x80\x02c__main__\nMLP\n)\x81."), "an object of class \"MLP\"; save the model's state_dict()"},
		"endless text":     {[]byte("\x80\x02X\xff\xff\xff\xffa."), "4294967295 bytes are read"},
		"endless bytes":    {[]byte("\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x7fa."), "instruction 0x8e has no place"},
		"endless number":   {[]byte("\x80\x02\x8a\xff."), "a number of 255 bytes"},
		"opcode 255":       {[]byte("\xff."), "instruction 0xff"},
		"empty stack":      {[]byte("\x80\x02."), "the stack is empty"},
		"pop of mark":      {[]byte("(" + "."), "a mark stands for a value"},
		"no mark":          {[]byte("t."), "a mark is missing"},
		"memo":             {[]byte("h\x07."), "value 7 is used before it is there"},
		"add to itself":    {[]byte("]q\x00h\x00a."), "it holds no state dict"},
		"dict of odd":      {[]byte("}(Nu."), "added to what does not take them"},
		"append to dict":   {[]byte("}Na."), "added to what does not take them"},
		"number for name":  {[]byte("K\x01K\x02\x93."), "a name is not text"},
		"name without end": {[]byte("ctorch"), "a name has no end"},
		"call of number":   {[]byte("K\x01)R."), "a call is not a name"},
		"state of number":  {[]byte("K\x01Nb."), "state is given to what has none"},
		"pid":              {[]byte("K\x01Q."), "a reference is not to a storage"},
		"storage type":     {replace("FloatStorage", "ComplexStorag"), `"torch.ComplexStorag" are not supported`},
		"short dict":       {[]byte("}X\x01\x00\x00\x00aNs."), "other things than tensors"},
		"twice":            {pickleOf([]saved{x, x}, false), `tensor "w" occurs twice`},
		"record":           {replace("X\x01\x00\x00\x000", "X\x01\x00\x00\x007"), `its record "data/7" is missing`},
		"record outside":   {replace("X\x01\x00\x00\x000", "X\x0b\x00\x00\x00../data.pkl"), `its record "data/../data.pkl" is missing`},
		"elements":         {replace("J\x04\x00\x00\x00tQ", "J\x05\x00\x00\x00tQ"), "5 elements of F32 do not lie in a record of 16 bytes"},
		"negative":         {replace("J\x04\x00\x00\x00tQ", "J\xff\xff\xff\xfftQ"), "a storage is not described"},
		"endless elements": {replace("J\x04\x00\x00\x00tQ", "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7ftQ"), "do not lie in a record"},
		"offset":           {replace("tQK\x00", "tQK\x01"), "4 elements from 1 on do not fit a storage of 4"},
		"shape":            {replace("(J\x02\x00\x00\x00J\x02\x00\x00\x00t(", "(J\x02\x00\x00\x00J\x03\x00\x00\x00t("), "view"},
		"large shape":      {replace("(J\x02\x00\x00\x00J\x02\x00\x00\x00t(", "(J\xff\xff\xff\x7fJ\x02\x00\x00\x00t("), "does not fit a storage of 4 elements"},
		"transposed":       {replace("(J\x02\x00\x00\x00J\x01\x00\x00\x00t\x89", "(J\x01\x00\x00\x00J\x02\x00\x00\x00t\x89"), "transposed or cut view"},
		"rank":             {replace("(J\x02\x00\x00\x00J\x01\x00\x00\x00t\x89", "(J\x02\x00\x00\x00t\x89"), "a tensor is not described by"},
	}
	for name, c := range cases {
		data := archiveOf(c.pickle, zip.Store, []saved{x, x})
		f, err := readTorch("m.pt", bytes.NewReader(data), int64(len(data)))
		if err == nil {
			_, err = f.stateDict()
		}
		if err == nil || !strings.HasPrefix(err.Error(), "m.pt: ") || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	compressed := archiveOf(good, zip.Deflate, []saved{x})
	f, err := readTorch("m.pt", bytes.NewReader(compressed), int64(len(compressed)))
	if err == nil {
		_, err = f.stateDict()
	}
	if err == nil || !strings.Contains(err.Error(), "compressed") {
		t.Errorf("compressed records: %v", err)
	}
	bomb := archiveOf(make([]byte, maxPickle+1), zip.Deflate, nil)
	if _, err := readTorch("m.pt", bytes.NewReader(bomb), int64(len(bomb))); err == nil || !strings.Contains(err.Error(), "more than the 1048576") {
		t.Errorf("a bomb: %v", err)
	}
	if _, err := readTorch("m.pt", strings.NewReader("PK"), 2); err == nil || !strings.Contains(err.Error(), "it is no archive of torch.save") {
		t.Errorf("no archive: %v", err)
	}
}

// FuzzTorch: whatever the bytes, tensors that are found lie in the file, and errors are one line.
func FuzzTorch(f *testing.F) {
	names, _ := filepath.Glob("testdata/torch/*.pt")
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	x := saved{"fc1.weight", "F32", []int{2, 3}, make([]float64, 6)}
	f.Add(archiveOf(pickleOf([]saved{x}, false), zip.Store, []saved{x}))
	f.Fuzz(func(t *testing.T, data []byte) {
		size := int64(len(data))
		file, err := readTorch("m.pt", bytes.NewReader(data), size)
		if err != nil {
			oneLine(t, err)
			return
		}
		found, err := file.stateDict()
		if err != nil {
			oneLine(t, err)
			one, err := file.tensor()
			if err != nil {
				oneLine(t, err)
				return
			}
			found = map[string]*stored{"": one}
		}
		for _, s := range found {
			if s.offset < 0 || s.bytes < 0 || s.offset > size || s.bytes > size-s.offset {
				t.Fatalf("%+v lies outside %d bytes", s, size)
			}
			if _, err := s.numbers(); err != nil {
				oneLine(t, err)
			}
		}
	})
}

// FuzzPickle reaches the stack machine without an archive's checksums.
func FuzzPickle(f *testing.F) {
	f.Add(pickleOf([]saved{{"w", "F32", []int{2, 2}, nil}, {"v", "I64", []int{3}, nil}}, false))
	f.Add(pickleOf([]saved{{"", "F16", []int{7}, nil}}, true))
	f.Add([]byte("\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00\x8c\x05torch\x94\x8c\x01x\x93\x94)R."))
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := unpickle(data); err != nil {
			oneLine(t, err)
		}
	})
}

func oneLine(t *testing.T, err error) {
	t.Helper()
	if strings.Contains(err.Error(), "\n") || len(err.Error()) > 1000 {
		t.Fatalf("%q is not one line", err)
	}
}
