package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/flags"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/session"
	"github.com/powerinfer-go/powerinfer/internal/wholefile"
)

func embeddingCommand() *cli.Command {
	return &cli.Command{
		Name: "embedding", UsageText: `powerinfer embedding -m embeddings.gguf -p "a king\na river"`, Usage: "print the embeddings of texts, or a reranker's scores, as llama-embedding does",
		Description: `Texts come from -p, -f or standard input, one a line. Several are compared, too: the cosine of the angle between each two.
A reranker, or --pooling rank, takes a query and a document in a line, with a tab between them, and prints a score for each.`,
		Flags: slices.Concat(flags.Engine(), []cli.Flag{
			&cli.StringFlag{Name: "prompt", Aliases: []string{"p"}, Usage: "`TEXTS`"},
			&cli.StringFlag{Name: "file", Aliases: []string{"f"}, Usage: "read the texts from `FILE`; - is standard input"},
			&cli.BoolFlag{Name: "no-escape", Usage: `take \n, \t and the like in -p literally`},
			poolingFlag(),
			&cli.IntFlag{Name: "embd-normalize", Value: euclid, Usage: normUsage},
			&cli.StringFlag{Name: "embd-output-format", Usage: "array, json as of OpenAI, json+ with the cosines, or raw numbers; default: for people"},
			&cli.StringFlag{Name: "embd-separator", Value: "\n", Usage: "`TEXT` between two texts"},
			&cli.StringFlag{Name: "cls-separator", Value: "\t", Usage: "`TEXT` between a query and a document"},
			&cli.BoolFlag{Name: "verbose", Aliases: []string{"v"}, Usage: "say how the model is computed"},
		}),
		Action: embedding,
	}
}

// euclid is the usual norm of embeddings: see engine.Normalise.
const euclid = 2

const normUsage = "how vectors are scaled: -1 not, 0 to a largest number of 32760, 1 by the sum, 2 by Euclid's length, more by that norm"

func poolingFlag() cli.Flag {
	return &cli.StringFlag{
		Name: "pooling", Usage: "how a text's tokens become one embedding: none, mean, cls, last, or rank of rerankers; default: the file's, else mean", Sources: flags.Env("POOLING"),
	}
}

// embeddings are texts with their vectors.
type embeddings struct {
	texts   []string
	vectors [][]float32 // one per text; without pooling one per token
	each    bool        // the vectors belong to tokens
	labels  []string    // labels of a reranker's scores
	norm    int
}

func embedding(ctx context.Context, c *cli.Command) error {
	norm, format := c.Int("embd-normalize"), c.String("embd-output-format")
	if norm < -1 || norm > engine.MaxNorm {
		return fmt.Errorf("--embd-normalize %d is not a number from -1 to %d", norm, engine.MaxNorm)
	}
	if !slices.Contains([]string{"", "array", "json", "json+", "raw"}, format) {
		return fmt.Errorf("--embd-output-format %q is none of array, json, json+ and raw", format)
	}
	texts, err := embeddingTexts(c)
	if err != nil {
		return err
	}
	s, err := openSession(ctx, c, 1)
	if err != nil {
		return err
	}
	defer s.Close()
	pooling, err := choosePooling(c, s.File)
	if err != nil {
		return err
	}
	e, err := embed(ctx, s, texts, pooling, c.String("cls-separator"), norm)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(c.Root().Writer)
	switch format {
	case "":
		e.print(out, pooling)
	case "raw":
		for _, v := range e.vectors {
			fmt.Fprintln(out, strings.Join(e.numbers(v, 6), " "))
		}
	default:
		e.writeJSON(out, format)
	}
	return out.Flush()
}

// embeddingTexts reads the texts from -p, -f or standard input.
func embeddingTexts(c *cli.Command) ([]string, error) {
	var text string
	switch {
	case c.IsSet("prompt") && c.IsSet("file"):
		return nil, errors.New("-p and -f both give texts; give one")
	case c.IsSet("prompt"):
		text = flags.Prompt(c)
	case c.IsSet("file") && c.String("file") != "-":
		data, err := wholefile.Read(c.String("file"), wholefile.Text)
		if err != nil {
			return nil, err
		}
		text = string(data)
	default:
		data, err := wholefile.ReadFrom(os.Stdin, wholefile.Text)
		if err != nil {
			return nil, err
		}
		text = string(data)
	}
	separator := c.String("embd-separator")
	if separator == "" {
		return nil, errors.New("--embd-separator is empty; give what lies between two texts")
	}
	texts := strings.Split(strings.TrimSuffix(text, "\n"), separator)
	if len(texts) == 1 && texts[0] == "" {
		return nil, errors.New("there is no text: give it by -p, -f or standard input")
	}
	return texts, nil
}

// embed returns the embeddings of texts, or a reranker's scores. between separates a query from a document.
func embed(ctx context.Context, s *session.Session, texts []string, pooling engine.Pooling, between string, norm int) (*embeddings, error) {
	e := &embeddings{texts: texts, each: pooling == engine.PoolNone, labels: s.Labels(), norm: norm}
	all := make([][]int32, len(texts))
	for i, text := range texts {
		query, document, pair := strings.Cut(text, between)
		if pooling == engine.PoolRank && between != "" && pair {
			all[i] = s.EncodePair(query, document)
		} else {
			all[i] = s.Tokenizer().Encode(text, true, true)
		}
		if len(all[i]) == 0 {
			return nil, fmt.Errorf("text %d is empty", i)
		}
	}
	lists, err := s.EmbedAll(ctx, all, pooling)
	if err != nil {
		return nil, err
	}
	for _, list := range lists {
		for _, v := range list {
			if pooling != engine.PoolRank {
				engine.Normalise(v, norm)
			}
			e.vectors = append(e.vectors, v)
		}
	}
	return e, nil
}

// Numbers shown of a vector: the first ones for each of several texts, or the first and last ones for each token.
const (
	shownOfText  = 16
	shownOfToken = 3
)

// print writes e for people.
func (e *embeddings) print(out io.Writer, pooling engine.Pooling) {
	digits := 6
	if e.norm == 0 {
		digits = 0
	}
	for i, v := range e.vectors {
		switch {
		case pooling == engine.PoolRank:
			for j, score := range v {
				label := strconv.Itoa(j)
				if j < len(e.labels) {
					label = e.labels[j]
				}
				if label = " [" + label + "]"; len(v) == 1 {
					label = ""
				}
				fmt.Fprintf(out, "rerank score %d: %8.3f%s\n", i, score, label)
			}
		case e.each && len(v) > 2*shownOfToken:
			fmt.Fprintf(out, "embedding %d: %s ... %s\n", i, strings.Join(e.numbers(v[:shownOfToken], digits), " "), strings.Join(e.numbers(v[len(v)-shownOfToken:], digits), " "))
		default:
			if len(e.texts) > 1 {
				v = v[:min(shownOfText, len(v))]
			}
			fmt.Fprintf(out, "embedding %d: %s\n", i, strings.Join(e.numbers(v, digits), " "))
		}
	}
	if len(e.texts) < 2 || e.each || pooling == engine.PoolRank {
		return
	}
	fmt.Fprint(out, "\ncosine similarity matrix:\n\n")
	for _, t := range e.texts {
		fmt.Fprintf(out, "%6.6s ", t)
	}
	fmt.Fprintln(out)
	for i := range e.texts {
		for j := range e.texts {
			fmt.Fprintf(out, "%6.2f ", cosine(e.vectors[i], e.vectors[j]))
		}
		fmt.Fprintf(out, "%.10s\n", e.texts[i])
	}
}

// numbers returns a vector's numbers with this many digits after the point.
func (e *embeddings) numbers(v []float32, digits int) []string {
	out := make([]string, len(v))
	for i, x := range v {
		out[i] = strconv.FormatFloat(float64(x), 'f', digits, 32)
	}
	return out
}

// writeJSON writes a list of vectors or, as OpenAI's API does, an object. The format json+ adds the cosines.
func (e *embeddings) writeJSON(out io.Writer, format string) {
	digits := 7
	if e.norm == 0 {
		digits = 0
	}
	lines := make([]string, len(e.vectors))
	for i, v := range e.vectors {
		lines[i] = "[" + strings.Join(e.numbers(v, digits), ",") + "]"
	}
	if format == "array" {
		fmt.Fprintf(out, "[%s]\n", strings.Join(lines, ","))
		return
	}
	for i, line := range lines {
		lines[i] = fmt.Sprintf("    {\n      \"object\": \"embedding\",\n      \"index\": %d,\n      \"embedding\": %s\n    }", i, line)
	}
	fmt.Fprintf(out, "{\n  \"object\": \"list\",\n  \"data\": [\n%s\n  ]", strings.Join(lines, ",\n"))
	if format == "json+" && len(e.vectors) > 1 {
		rows := make([]string, len(e.vectors))
		for i, a := range e.vectors {
			row := make([]string, len(e.vectors))
			for j, b := range e.vectors {
				row[j] = strconv.FormatFloat(cosine(a, b), 'f', 2, 64)
			}
			rows[i] = "    [" + strings.Join(row, ", ") + "]"
		}
		fmt.Fprintf(out, ",\n  \"cosineSimilarity\": [\n%s\n  ]", strings.Join(rows, ",\n"))
	}
	fmt.Fprint(out, "\n}\n")
}

// cosine returns the cosine of the angle between two vectors. As in llama.cpp it is 0 if one of them is zero, and 1 if
// both are.
func cosine(a, b []float32) float64 {
	var ab, aa, bb float64
	for i := range a {
		ab += float64(a[i]) * float64(b[i])
		aa += float64(a[i]) * float64(a[i])
		bb += float64(b[i]) * float64(b[i])
	}
	if aa == 0 || bb == 0 {
		if aa == bb {
			return 1
		}
		return 0
	}
	return ab / (math.Sqrt(aa) * math.Sqrt(bb))
}
