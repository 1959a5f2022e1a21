package nn

import (
	"fmt"
	"slices"
	"strings"
)

// Pooling says how the hidden states of a text's tokens become one embedding: llama.cpp's --pooling.
type Pooling string

// The ways of pooling.
const (
	PoolNone Pooling = "none" // each token's state, unpooled
	PoolMean Pooling = "mean" // the mean of all
	PoolCLS  Pooling = "cls"  // the first token's
	PoolLast Pooling = "last" // the last token's
	PoolRank Pooling = "rank" // output of a reranker's classification head, computed from one of them
)

// Poolings returns the ways of pooling in the order of the numbers that GGUF files have for them.
func Poolings() []Pooling { return []Pooling{PoolNone, PoolMean, PoolCLS, PoolLast, PoolRank} }

// Number returns the number that GGUF files have for p.
func (p Pooling) Number() uint32 { return uint32(slices.Index(Poolings(), p)) }

// Single reports whether p makes one state of a text's: what a classification head can read.
func (p Pooling) Single() bool { return p == PoolMean || p == PoolCLS || p == PoolLast }

// ParsePooling returns the pooling of a name.
func ParsePooling(name string) (Pooling, error) {
	all := Poolings()
	if slices.Contains(all, Pooling(name)) {
		return Pooling(name), nil
	}
	var names []string
	for _, p := range all {
		names = append(names, string(p))
	}
	last := len(names) - 1
	return "", fmt.Errorf("there is no pooling %q: choose %s or %s", name, strings.Join(names[:last], ", "), names[last])
}

// RankPoolingKey is the key of our files for the state that the classification head reads, if it differs from the
// family's.
const RankPoolingKey = "powerinfer.rank_pooling"

// Ranking says how the classification head of a reranker reads a text, in files of the family that have one.
type Ranking struct {
	Pooling Pooling // the state that the head reads, unless the file says another; empty: the last
	GELU    bool    // the first product of the head goes through GELU; else through tanh
	Softmax bool    // scores are shares of 1: their softmax
}
