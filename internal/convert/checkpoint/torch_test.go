package checkpoint

import (
	"archive/zip"
	"bytes"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/convert/checkpoint/checkpointtest"
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
		f, err := OpenTorch(filepath.Join("testdata", "torch", "tensor_"+name+"_zip.pt"))
		if err != nil {
			t.Error(err)
			continue
		}
		x, err := f.Tensor()
		if err != nil {
			t.Error(err)
			continue
		}
		got, err := x.Numbers()
		if err != nil || len(got) != len(want) || !slices.Equal(x.Shape, []int{4}) {
			t.Errorf("%s: %v %v %v", name, x.Shape, got, err)
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
	_, err := OpenTorch(filepath.Join("testdata", "torch", "tensor_float32_proto2.pt"))
	if err == nil || !strings.Contains(err.Error(), "before 1.6") {
		t.Errorf("the old form: %v", err)
	}
}

func TestStateDict(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.pt")
	a := checkpointtest.Tensor{Name: "a.weight", DType: "F32", Shape: []int{2, 3}, Values: []float64{1, 2, 3, 4, 5, 6}}
	b := checkpointtest.Tensor{Name: "b", DType: "F16", Shape: []int{1}, Values: []float64{-0.5}}
	checkpointtest.SaveTorch(t, path, false, a, b)
	f, err := OpenTorch(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all, err := f.StateDict()
	if err != nil || len(all) != 2 {
		t.Fatal(all, err)
	}
	for _, want := range []checkpointtest.Tensor{a, b} {
		x := all[want.Name]
		got, err := x.Numbers()
		if err != nil || x.DType != want.DType || !slices.Equal(x.Shape, want.Shape) || !slices.Equal(got, want.Values) {
			t.Errorf("%s: %+v %v %v", want.Name, x, got, err)
		}
	}
	if _, err := f.Tensor(); err == nil {
		t.Error("a state dict was taken for a tensor")
	}
}

// Damaged and hostile files are one line that names the file.
func TestHostileTorch(t *testing.T) {
	x := checkpointtest.Tensor{Name: "w", DType: "F32", Shape: []int{2, 2}, Values: []float64{1, 2, 3, 4}}
	good := checkpointtest.Pickle([]checkpointtest.Tensor{x}, false)
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
		"twice":            {checkpointtest.Pickle([]checkpointtest.Tensor{x, x}, false), `tensor "w" occurs twice`},
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
		data := checkpointtest.Archive(c.pickle, zip.Store, []checkpointtest.Tensor{x, x})
		f, err := readTorch("m.pt", bytes.NewReader(data), int64(len(data)))
		if err == nil {
			_, err = f.StateDict()
		}
		if err == nil || !strings.HasPrefix(err.Error(), "m.pt: ") || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	compressed := checkpointtest.Archive(good, zip.Deflate, []checkpointtest.Tensor{x})
	f, err := readTorch("m.pt", bytes.NewReader(compressed), int64(len(compressed)))
	if err == nil {
		_, err = f.StateDict()
	}
	if err == nil || !strings.Contains(err.Error(), "compressed") {
		t.Errorf("compressed records: %v", err)
	}
	bomb := checkpointtest.Archive(make([]byte, maxPickle+1), zip.Deflate, nil)
	if _, err := readTorch("m.pt", bytes.NewReader(bomb), int64(len(bomb))); err == nil || !strings.Contains(err.Error(), "more than the 1048576") {
		t.Errorf("a bomb: %v", err)
	}
	if _, err := readTorch("m.pt", strings.NewReader("PK"), 2); err == nil || !strings.Contains(err.Error(), "it is no archive of torch.save") {
		t.Errorf("no archive: %v", err)
	}
}

// FuzzTorch: for any bytes, tensors are inside the file, and errors are one line.
func FuzzTorch(f *testing.F) {
	names, _ := filepath.Glob("testdata/torch/*.pt")
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	x := checkpointtest.Tensor{Name: "fc1.weight", DType: "F32", Shape: []int{2, 3}, Values: make([]float64, 6)}
	f.Add(checkpointtest.Archive(checkpointtest.Pickle([]checkpointtest.Tensor{x}, false), zip.Store, []checkpointtest.Tensor{x}))
	f.Fuzz(func(t *testing.T, data []byte) {
		size := int64(len(data))
		file, err := readTorch("m.pt", bytes.NewReader(data), size)
		if err != nil {
			oneLine(t, err)
			return
		}
		found, err := file.StateDict()
		if err != nil {
			oneLine(t, err)
			one, err := file.Tensor()
			if err != nil {
				oneLine(t, err)
				return
			}
			found = map[string]*Tensor{"": one}
		}
		for _, s := range found {
			if s.Offset < 0 || s.Bytes < 0 || s.Offset > size || s.Bytes > size-s.Offset {
				t.Fatalf("%+v lies outside %d bytes", s, size)
			}
			if _, err := s.Numbers(); err != nil {
				oneLine(t, err)
			}
		}
	})
}

// FuzzPickle reaches the stack machine without an archive's checksums.
func FuzzPickle(f *testing.F) {
	f.Add(checkpointtest.Pickle([]checkpointtest.Tensor{{Name: "w", DType: "F32", Shape: []int{2, 2}}, {Name: "v", DType: "I64", Shape: []int{3}}}, false))
	f.Add(checkpointtest.Pickle([]checkpointtest.Tensor{{DType: "F16", Shape: []int{7}}}, true))
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
