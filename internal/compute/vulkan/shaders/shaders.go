// Package shaders holds the compute shaders: GLSL sources, and the SPIR-V that is compiled from them and committed, with
// gzip.
package shaders

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
)

//go:embed *.spv.gz
var files embed.FS

// Extension ends the names of files of SPIR-V.
const Extension = ".spv.gz"

// Pack returns SPIR-V as files hold it.
func Pack(spirv []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(spirv); err != nil {
		return nil, err
	}
	err = w.Close()
	return b.Bytes(), err
}

// largest bounds the SPIR-V of a shader, in bytes.
const largest = 4 << 20

// Unpack returns the SPIR-V of a file.
func Unpack(file []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(file))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(r, largest))
}

// bytecode returns the SPIR-V of the shader name.comp.
func bytecode(name string) ([]byte, error) {
	file, err := files.ReadFile(name + Extension)
	if err != nil {
		return nil, err
	}
	return Unpack(file)
}

// Code returns the SPIR-V of the shader name.comp, in words.
func Code(name string) ([]uint32, error) {
	data, err := bytecode(name)
	if err != nil {
		return nil, err
	}
	if len(data) < 20 || len(data)%4 != 0 || binary.LittleEndian.Uint32(data) != 0x07230203 {
		return nil, fmt.Errorf("%s%s is no SPIR-V", name, Extension)
	}
	words := make([]uint32, len(data)/4)
	for i := range words {
		words[i] = binary.LittleEndian.Uint32(data[4*i:])
	}
	return words, nil
}

// Sums returns what changes with the code of any of some shaders.
func Sums(names ...string) string {
	h := sha256.New()
	for _, name := range names {
		data, _ := bytecode(name)
		h.Write(data)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}
