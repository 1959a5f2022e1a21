// Package demo carries a small, really trained ReLU model, so that a first command needs no download.
// Its weights, tokenizer and corpus are described in demo/README.md.
package demo

import _ "embed"

// Name stands for the embedded file in messages.
const Name = "demo/tales-relu.gguf"

//go:embed tales-relu.gguf
var model []byte

// Model returns the embedded GGUF file; the bytes are read-only.
func Model() []byte { return model }
