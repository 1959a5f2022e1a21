// Package shaders holds the compute shaders: GLSL sources, and the SPIR-V that is compiled from them and committed.
package shaders

import (
	"crypto/sha256"
	"embed"
	"encoding/binary"
	"encoding/hex"
	"fmt"
)

//go:embed *.spv
var binaries embed.FS

// Code returns the SPIR-V of the shader name.comp, in words.
func Code(name string) ([]uint32, error) {
	data, err := binaries.ReadFile(name + ".spv")
	if err != nil {
		return nil, err
	}
	if len(data) < 20 || len(data)%4 != 0 || binary.LittleEndian.Uint32(data) != 0x07230203 {
		return nil, fmt.Errorf("%s.spv is no SPIR-V", name)
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
		data, _ := binaries.ReadFile(name + ".spv")
		h.Write(data)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}
