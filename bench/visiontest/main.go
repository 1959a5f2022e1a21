// Command visiontest writes the tiny models that internal/vision is compared with llama.cpp on, and the figures that
// llama.cpp got from them. See internal/vision/visiontest/README.md.
package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/internal/vision/visiontest"
)

func main() {
	command := &cli.Command{
		Name:  "visiontest",
		Usage: "tiny models that see",
		Commands: []*cli.Command{
			{Name: "write", Usage: "writes models and pictures of all cases, or of those named; gemma3_large is not among all", ArgsUsage: "FOLDER [CASE...]", Action: write},
			{Name: "figures", Usage: "prints figures.json from what llama.cpp wrote", ArgsUsage: "FOLDER", Action: figures},
		},
	}
	if err := command.Run(context.Background(), os.Args); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func write(_ context.Context, c *cli.Command) error {
	cases := visiontest.Cases()
	if names := c.Args().Tail(); len(names) > 0 {
		cases = slices.DeleteFunc(append(cases, visiontest.Large()), func(v visiontest.Case) bool { return !slices.Contains(names, v.Name) })
	}
	for _, v := range cases {
		if err := v.Write(filepath.Join(c.Args().First(), v.Name)); err != nil {
			return fmt.Errorf("%s: %w", v.Name, err)
		}
	}
	return nil
}

func figures(_ context.Context, c *cli.Command) error {
	all := map[string]map[string]visiontest.Figures{}
	for _, v := range visiontest.Cases() {
		all[v.Name] = map[string]visiontest.Figures{}
		for _, p := range v.Pictures {
			f, err := read(filepath.Join(c.Args().First(), v.Name, p.Name))
			if err != nil {
				return fmt.Errorf("%s, %s: %w", v.Name, p.Name, err)
			}
			all[v.Name][p.Name] = f
		}
	}
	return print(os.Stdout, all)
}

// print writes a line a picture.
func print(to io.Writer, all map[string]map[string]visiontest.Figures) error {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		var pictures []string
		for _, picture := range slices.Sorted(maps.Keys(all[name])) {
			line, err := json.Marshal(all[name][picture])
			if err != nil {
				return err
			}
			pictures = append(pictures, fmt.Sprintf("\t\t%q: %s", picture, line))
		}
		lines = append(lines, fmt.Sprintf("\t%q: {\n%s\n\t}", name, strings.Join(pictures, ",\n")))
	}
	_, err := fmt.Fprintf(to, "{\n%s\n}\n", strings.Join(lines, ",\n"))
	return err
}

// read summarizes what llama.cpp wrote to a folder.
func read(dir string) (f visiontest.Figures, err error) {
	text, err := os.ReadFile(filepath.Join(dir, "info.json"))
	if err != nil {
		return f, err
	}
	var info struct {
		Chunks []struct {
			Pos       int
			Tokens    []int32
			Rows      int
			Positions int
			NonCausal bool `json:"non_causal"`
			Images    [][2]int
		}
	}
	if err := json.Unmarshal(text, &info); err != nil {
		return f, err
	}
	for _, c := range info.Chunks {
		f.Images = append(f.Images, c.Images...)
		f.Chunks = append(f.Chunks, visiontest.Chunk{Position: c.Pos, Tokens: c.Tokens, Rows: c.Rows, Positions: c.Positions, Both: c.NonCausal})
	}
	all := 0
	for _, c := range f.Chunks {
		all += len(c.Tokens)
	}
	after := float64(len(f.After())) / float64(all)
	for _, v := range []struct {
		name string
		part float64
		to   *visiontest.Summary
	}{{"pixels", 1, &f.Pixels}, {"embd.exact", 1, &f.Rows}, {"logits.exact", after, &f.Logits}} {
		if *v.to, err = summary(dir, v.name, v.part); err != nil {
			return f, err
		}
	}
	for _, v := range []struct {
		name string
		part float64
		to   **visiontest.Summary
	}{{"embd.published", 1, &f.PublishedRows}, {"logits.published", after, &f.PublishedLogits}} {
		s, err := summary(dir, v.name, v.part)
		if err == nil {
			*v.to = &s
		} else if !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
	}
	return f, nil
}

// summary summarizes the last part of a file's numbers.
func summary(dir, name string, part float64) (visiontest.Summary, error) {
	b, err := os.ReadFile(filepath.Join(dir, name+".f32"))
	if err != nil {
		return visiontest.Summary{}, err
	}
	x := make([]float32, len(b)/4)
	if err := binary.Read(bytes.NewReader(b), binary.LittleEndian, x); err != nil {
		return visiontest.Summary{}, err
	}
	s := visiontest.Summarize(x[len(x)-int(math.Round(part*float64(len(x)))):])
	for _, v := range append([]*float64{&s.Norm}, pointers(&s)...) {
		if *v, err = strconv.ParseFloat(strconv.FormatFloat(*v, 'g', digits, 64), 64); err != nil {
			return s, err
		}
	}
	return s, nil
}

// digits are enough to see a relative difference of 1e-6 of a sum.
const digits = 8

func pointers(s *visiontest.Summary) (p []*float64) {
	for i := range s.First {
		p = append(p, &s.First[i], &s.Sums[i])
	}
	return p
}
