package gguf

import (
	"bytes"
	"io"
	"math"
	"reflect"
	"strings"
	"testing"
)

// sources makes a File's tensors writable again.
func sources(f *File) []Source {
	var out []Source
	for _, t := range f.Tensors {
		out = append(out, Source{t.Name, t.Type, t.Shape, func(w io.Writer) error {
			_, err := w.Write(t.Data)
			return err
		}})
	}
	return out
}

// same reports what differs between two files' contents; NaN equals NaN of the same kind.
func same(t *testing.T, a, b *File) {
	t.Helper()
	if a.Magic != b.Magic || a.Alignment != b.Alignment || len(a.Keys) != len(b.Keys) || len(a.Tensors) != len(b.Tensors) {
		t.Fatalf("%q/%d/%d keys/%d tensors became %q/%d/%d/%d", a.Magic, a.Alignment, len(a.Keys), len(a.Tensors), b.Magic, b.Alignment, len(b.Keys), len(b.Tensors))
	}
	for i := range a.Keys {
		if a.Keys[i].Key != b.Keys[i].Key || !equal(a.Keys[i].Value, b.Keys[i].Value) {
			t.Fatalf("key %d: %#v became %#v", i, a.Keys[i], b.Keys[i])
		}
	}
	for i, x := range a.Tensors {
		y := b.Tensors[i]
		if x.Name != y.Name || x.Type != y.Type || !reflect.DeepEqual(x.Shape, y.Shape) || string(x.Data) != string(y.Data) {
			t.Fatalf("tensor %d: %s %v %v became %s %v %v, or its data changed", i, x.Name, x.Type, x.Shape, y.Name, y.Type, y.Shape)
		}
	}
}

// equal compares values with floats by bits, since a NaN does not equal itself.
func equal(a, b any) bool {
	switch x := a.(type) {
	case float32:
		y, ok := b.(float32)
		return ok && math.Float32bits(x) == math.Float32bits(y)
	case float64:
		y, ok := b.(float64)
		return ok && math.Float64bits(x) == math.Float64bits(y)
	}
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	if x.Kind() != reflect.Slice {
		return reflect.DeepEqual(a, b)
	}
	if x.Type() != y.Type() || x.Len() != y.Len() {
		return false
	}
	for i := range x.Len() {
		if !equal(x.Index(i).Interface(), y.Index(i).Interface()) {
			return false
		}
	}
	return true
}

// FuzzParse: no input panics; every error is one line with the file's name; accepted data is inside the file and
// survives being written and parsed again.
func FuzzParse(f *testing.F) {
	for _, seed := range []raw{small(2), small(3), everyKind(), append(raw("PWRI"), small(3)[4:]...)} {
		f.Add([]byte(seed))
	}
	for _, c := range hostile() {
		if len(c.file) < 8192 {
			f.Add([]byte(c.file))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := Parse("x.gguf", data)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "x.gguf: ") || strings.ContainsAny(err.Error(), "\n\r") {
				t.Fatalf("error %q", err)
			}
			return
		}
		for _, x := range a.Tensors {
			if x.Elems() != x.Rows()*x.Shape[0] || len(x.Data) != x.Rows()*x.Type.RowBytes(x.Shape[0]) {
				t.Fatalf("tensor %q %v %v holds %d bytes", x.Name, x.Type, x.Shape, len(x.Data))
			}
			if x.Offset < 0 || int(x.Offset) > len(data)-len(x.Data) || len(x.Data) > 0 && &x.Data[0] != &data[x.Offset] {
				t.Fatalf("tensor %q does not lie at offset %d", x.Name, x.Offset)
			}
		}
		if a.Alignment > 4096 {
			return // padding would make large files
		}
		var again bytes.Buffer // write is what Create calls; without the disk
		if err := write(t.Context(), &again, a.Magic, a.Keys, sources(a), nil); err != nil {
			t.Fatal(err)
		}
		b, err := Parse("again.gguf", again.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		same(t, a, b)
	})
}
