package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/flags"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/screen"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
)

func inspectCommand() *cli.Command {
	return &cli.Command{
		Name: "inspect", Usage: "print a file's metadata, tensors, types and sizes, or its neurons",
		Flags: append(flags.Model(),
			&cli.BoolFlag{Name: "json", Usage: "print everything as one JSON object"},
			&cli.BoolFlag{Name: "neurons", Usage: "print how often a prepared model's neurons are active, and its predictors, or how its experts are used"},
			&cli.StringFlag{Name: "report", Usage: "the same as a page and pictures: report.html, curves.png, ranks.png, map.png, of experts reuse.png in `FOLDER`"},
		),
		Action: func(_ context.Context, c *cli.Command) error {
			if c.IsSet("report") && c.String("report") == "" {
				return errors.New("--report names no folder")
			}
			f, err := openModel(c)
			if err != nil {
				return err
			}
			defer f.Close()
			if c.Bool("neurons") || c.IsSet("report") {
				return inspectNeurons(f, c.String("report"), c.Bool("json"))
			}
			if c.Bool("json") {
				return inspectJSON(f)
			}
			return inspectText(f)
		},
	}
}

// inspection is the output of inspect --json.
type inspection struct {
	File      string          `json:"file"`
	Magic     string          `json:"magic"`
	Version   uint32          `json:"version"`
	Alignment uint64          `json:"alignment"`
	Bytes     int64           `json:"bytes"` // size of tensor data
	Elements  int64           `json:"elements"`
	Metadata  map[string]any  `json:"metadata"`
	Tensors   []tensorSummary `json:"tensors"`
}

type tensorSummary struct {
	Name   string `json:"name"`
	Type   string `json:"type"`
	Shape  []int  `json:"shape"` // row length first, as GGUF stores it
	Bytes  int    `json:"bytes"`
	Offset int64  `json:"offset"`
}

func summarise(f *gguf.File) inspection {
	s := inspection{File: f.Path, Magic: f.Magic, Version: f.Version, Alignment: f.Alignment, Metadata: map[string]any{}, Tensors: []tensorSummary{}}
	for _, kv := range f.Keys {
		s.Metadata[kv.Key] = finite(kv.Value)
	}
	for _, t := range f.Tensors {
		s.Tensors = append(s.Tensors, tensorSummary{t.Name, t.Type.String(), t.Shape, len(t.Data), t.Offset})
		s.Bytes += int64(len(t.Data))
		s.Elements += int64(t.Elems())
	}
	return s
}

// finite replaces numbers that JSON cannot hold by their names, and byte arrays by number arrays.
func finite(v any) any {
	switch x := v.(type) {
	case float32:
		return finite(float64(x))
	case float64:
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return strconv.FormatFloat(x, 'g', -1, 64)
		}
		return x
	}
	r := reflect.ValueOf(v)
	if r.Kind() != reflect.Slice {
		return v
	}
	out := make([]any, r.Len())
	for i := range out {
		out[i] = finite(r.Index(i).Interface())
	}
	return out
}

func inspectJSON(f *gguf.File) error {
	enc := json.NewEncoder(screen.Out)
	enc.SetIndent("", "  ")
	return enc.Encode(summarise(f))
}

func inspectText(f *gguf.File) error {
	s := summarise(f)
	out := bufio.NewWriter(screen.Out)
	fmt.Fprintf(out, "%s: %s v%d, %d keys, %d tensors, %.2f GiB, %.1f M elements\n\n",
		strconv.Quote(s.File), s.Magic, s.Version, len(f.Keys), len(s.Tensors), float64(s.Bytes)/(1<<30), float64(s.Elements)/1e6)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, kv := range f.Keys {
		fmt.Fprintf(w, "%s\t%s\t%s\n", screen.Plain(kv.Key), strings.TrimPrefix(fmt.Sprintf("%T", kv.Value), "[]interface "), preview(kv.Value))
	}
	w.Flush()
	fmt.Fprintln(out)
	w = tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "tensor\ttype\tshape\tbytes")
	byType := map[string]int64{}
	for _, t := range s.Tensors {
		fmt.Fprintf(w, "%s\t%s\t%v\t%d\n", screen.Plain(t.Name), t.Type, t.Shape, t.Bytes)
		byType[t.Type] += int64(t.Bytes)
	}
	w.Flush()
	fmt.Fprintln(out)
	for _, t := range slices.Sorted(maps.Keys(byType)) {
		fmt.Fprintf(out, "%s: %d bytes\n", t, byType[t])
	}
	return out.Flush()
}

// previewItems and previewRunes bound how much of a long value is printed.
const (
	previewItems = 6
	previewRunes = 80
)

func preview(v any) string {
	r := reflect.ValueOf(v)
	if r.Kind() != reflect.Slice {
		if s, ok := v.(string); ok {
			return clip(strconv.Quote(s))
		}
		return fmt.Sprint(v)
	}
	var items []string
	for i := range min(r.Len(), previewItems) {
		items = append(items, preview(r.Index(i).Interface()))
	}
	more := ""
	if r.Len() > previewItems {
		more = fmt.Sprintf(", … %d in all", r.Len())
	}
	return "[" + strings.Join(items, ", ") + more + "]"
}

func clip(s string) string {
	r := []rune(s)
	if len(r) <= previewRunes {
		return s
	}
	return string(r[:previewRunes]) + "…"
}
