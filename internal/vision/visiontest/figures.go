package visiontest

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
)

// Figures are what llama.cpp computes from a picture of a case: see README.md.
type Figures struct {
	Images [][2]int `json:"images"` // widths and heights of what the tower sees, in the prompt's order
	Chunks []Chunk  `json:"chunks"`
	Pixels Summary  `json:"pixels"` // of all images, normalised; a row a pixel, red, green and blue
	Rows   Summary  `json:"rows"`   // of all pictures' rows [rows, width]
	Logits Summary  `json:"logits"` // of the tokens of text after the picture [tokens, vocabulary]
	// PublishedRows and PublishedLogits are what the published model gives, where llama.cpp does not.
	PublishedRows   *Summary `json:"published_rows,omitempty"`
	PublishedLogits *Summary `json:"published_logits,omitempty"`
}

// Chunk is a run of tokens, or of rows of one image.
type Chunk struct {
	Position  int     `json:"position"` // of the first
	Tokens    []int32 `json:"tokens,omitempty"`
	Rows      int     `json:"rows,omitempty"`
	Positions int     `json:"positions,omitempty"` // that the rows take
	Both      bool    `json:"both,omitempty"`      // the text model lets the rows see each other in both directions
}

// After returns the tokens of text after the picture.
func (f *Figures) After() []int32 { return f.Chunks[len(f.Chunks)-1].Tokens }

// Summary stands for a vector: its first elements, its norm, and sums of its elements with random signs.
type Summary struct {
	Count int        `json:"count"`
	First [8]float64 `json:"first"`
	Norm  float64    `json:"norm"`
	Sums  [8]float64 `json:"sums"`
}

// Summarize returns the summary of x.
func Summarize(x []float32) Summary {
	s := Summary{Count: len(x)}
	signs := named("signs")
	var squares float64
	for i, v := range x {
		v := float64(v)
		if i < len(s.First) {
			s.First[i] = v
		}
		squares += v * v
		bits := signs.bits(i)
		for k := range s.Sums {
			if bits>>k&1 == 0 {
				s.Sums[k] += v
			} else {
				s.Sums[k] -= v
			}
		}
	}
	s.Norm = math.Sqrt(squares)
	return s
}

// Distance estimates the norm of the difference of two vectors, in parts of the second's norm. A sum with random signs
// of the difference has its norm as deviation. It is infinite for vectors of different lengths, or that are no numbers.
func (s Summary) Distance(want Summary) float64 {
	if s.Count != want.Count {
		return math.Inf(1)
	}
	var squares float64
	for k := range s.Sums {
		d := s.Sums[k] - want.Sums[k]
		squares += d * d / float64(len(s.Sums))
	}
	d := math.Sqrt(squares) / want.Norm
	for i := range s.First {
		d = max(d, math.Abs(s.First[i]-want.First[i])/want.Norm)
	}
	if math.IsNaN(d) {
		return math.Inf(1)
	}
	return d
}

//go:embed figures.json
var figures []byte

// Peer returns llama.cpp's figures of each picture of the case, by the picture's name.
func (c Case) Peer() (map[string]Figures, error) {
	var all map[string]map[string]Figures
	if err := json.Unmarshal(figures, &all); err != nil {
		return nil, fmt.Errorf("figures.json: %w", err)
	}
	return all[c.Name], nil
}
