package checkpoint

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// raw puts a header's length before it and data after it.
func raw(header string, data int) []byte {
	return slices.Concat(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), []byte(header), make([]byte, data))
}

func entry(dtype, shape string, from, to int) string {
	return fmt.Sprintf(`{"dtype":%q,"shape":%s,"data_offsets":[%d,%d]}`, dtype, shape, from, to)
}

func TestSafetensorsHeader(t *testing.T) {
	b := raw(`{"__metadata__":{"format":"pt"},"b":`+entry("BF16", "[2,3]", 8, 20)+`,"a":`+entry("F32", "[2]", 0, 8)+`,"none":`+entry("F16", "[0,4]", 8, 8)+`}   `, 20)
	got, err := readHeader(&shard{path: "x", r: bytes.NewReader(b)}, int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, x := range got {
		names = append(names, x.Name)
	}
	data := int64(len(b) - 20)
	if !slices.Equal(names, []string{"a", "none", "b"}) || got[2].Offset != data+8 || got[2].Bytes != 12 || !slices.Equal(got[2].Shape, []int{2, 3}) {
		t.Errorf("tensors %+v", got)
	}
}

func TestBadSafetensors(t *testing.T) {
	for _, c := range []struct {
		name string
		file []byte
		want string
	}{
		{"empty", nil, "m.safetensors: offset 0: the file has 0 bytes, a safetensors file at least 8"},
		{"length", binary.LittleEndian.AppendUint64(nil, 1<<63), "offset 0: a header of 9223372036854775808 bytes does not fit the file's 8"},
		{"truncated header", raw(`{"a":`, 0)[:10], "offset 0: a header of 5 bytes does not fit the file's 10"},
		{"not JSON", raw(`[1]`, 0), "offset 8: the header is not a JSON object"},
		{"cut JSON", raw(`{"a":`, 0), `tensor "a": EOF`},
		{"unclosed", raw(`{"a":`+entry("F32", "[1]", 0, 4), 4), "the header is damaged"},
		{"trailing", raw(`{"a":`+entry("F32", "[1]", 0, 4)+`} x`, 4), "the header goes on after its JSON object"},
		{"twice", raw(`{"a":`+entry("F32", "[1]", 0, 4)+`,"a":`+entry("F32", "[1]", 4, 8)+`}`, 8), `tensor "a" occurs twice`},
		{"dtype", raw(`{"a":`+entry("Q4", "[1]", 0, 4)+`}`, 4), `tensor "a": dtype "Q4" is not supported; supported are F32, F16, BF16`},
		{"shape", raw(`{"a":`+entry("F32", "[2]", 0, 4)+`}`, 4), `tensor "a": shape [2] of F32 needs 8 bytes, data_offsets give 4`},
		{"negative", raw(`{"a":`+entry("F32", "[-1]", 0, 4)+`}`, 4), `tensor "a"`},
		{"overflow", raw(`{"a":`+entry("F32", "[2147483647,2147483647,2147483647]", 0, 4)+`}`, 4), "is too large"},
		{"wrapping", raw(`{"a":`+entry("F32", "[4294967296,4294967296]", 0, 0)+`}`, 0), "is too large"},
		{"backwards", raw(`{"a":`+entry("F32", "[1]", 4, 0)+`}`, 4), "data_offsets [4 0] are not a range"},
		{"one offset", raw(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}}`, 4), "data_offsets [0] are not a range"},
		{"past the end", raw(`{"a":`+entry("F32", "[2]", 0, 8)+`}`, 4), `tensor "a" ends 4 bytes past the end of the file`},
		{"overlap", raw(`{"a":`+entry("F32", "[2]", 0, 8)+`,"b":`+entry("F32", "[2]", 4, 12)+`}`, 12), `tensor "b" overlaps tensor "a"`},
		{"hole", raw(`{"a":`+entry("F32", "[1]", 0, 4)+`,"b":`+entry("F32", "[1]", 8, 12)+`}`, 12), `4 bytes before tensor "b" belong to no tensor`},
		{"surplus", raw(`{"a":`+entry("F32", "[1]", 0, 4)+`}`, 6), "2 bytes after the last tensor belong to none"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := readHeader(&shard{path: "m.safetensors", r: bytes.NewReader(c.file)}, int64(len(c.file)))
			expectError(t, err, c.want)
			if err != nil && !strings.HasPrefix(err.Error(), "m.safetensors: offset ") {
				t.Errorf("error %q does not begin with file and offset", err)
			}
		})
	}
}

// expectError checks that err is one line that holds want.
func expectError(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want %q", want)
	}
	if s := err.Error(); !strings.Contains(s, want) || strings.Contains(s, "\n") {
		t.Errorf("error %q, want one line with %q", s, want)
	}
}

func FuzzSafetensors(f *testing.F) {
	f.Add(raw(`{"a":`+entry("F32", "[1]", 0, 4)+`,"b":`+entry("F16", "[2,1]", 4, 8)+`}`, 8))
	f.Add(raw(`{"__metadata__":{"a":"b"}}`, 0))
	f.Add(raw(`{"a":`+entry("F32", "[4294967296,4294967296]", 0, 0)+`}`, 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		tensors, err := readHeader(&shard{path: "x", r: bytes.NewReader(b)}, int64(len(b)))
		if err != nil {
			return
		}
		var end int64
		for i, x := range tensors {
			n := int64(elements()[x.DType].bytes)
			for _, d := range x.Shape {
				n *= int64(d)
			}
			if n != x.Bytes || x.Offset < 8 || x.Offset > int64(len(b))-x.Bytes || i > 0 && x.Offset != end {
				t.Fatalf("accepted tensor %+v in a file of %d bytes", x, len(b))
			}
			end = x.Offset + x.Bytes
		}
	})
}

// TestUndelivered: a clone without Git LFS has pointers in place of the folder's files, and the message says so.
func TestUndelivered(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "model.safetensors"), []byte("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 4\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "git lfs pull") {
		t.Errorf("%v", err)
	}
}
