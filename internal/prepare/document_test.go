package prepare

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/demo"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
	"github.com/powerinfer-go/powerinfer/internal/tokenizer"
)

func writeFile(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestReadDocuments: a document in two files is one document; one long text becomes parts that contain all of it and
// nothing else.
func TestReadDocuments(t *testing.T) {
	a := writeFile(t, "a", "x\n</s>\ny\n</s>\nz")
	b := writeFile(t, "b", "y\n</s>\nw")
	docs, cut, err := readDocuments([]string{a, b})
	if err != nil || cut || len(docs) != 4 {
		t.Fatalf("%d documents, cut %v, %v", len(docs), cut, err)
	}
	var lines []string
	for i := range 2000 {
		lines = append(lines, fmt.Sprintf("line %d of a text without ends", i))
	}
	long := strings.Join(lines, "\n")
	docs, cut, err = readDocuments([]string{writeFile(t, "long", long)})
	if err != nil || !cut || len(docs) < 4 {
		t.Fatalf("%d documents, cut %v, %v", len(docs), cut, err)
	}
	const leastPart = 4 << 10 // as docs/prepare.md says
	var back []string
	for _, d := range docs {
		if len(d.text) < leastPart || len(d.text) > 3*leastPart {
			t.Errorf("a part of %d bytes", len(d.text))
		}
		back = append(back, d.text)
	}
	if strings.Join(back, "\n") != long {
		t.Error("the parts are not the text")
	}
	// Overlap many small documents only the large one is cut.
	docs, cut, err = readDocuments([]string{writeFile(t, "long", long), writeFile(t, "small", "a\n</s>\nb\n</s>\nc\n</s>\nd")})
	if err != nil || !cut || len(docs) != len(back)+4 {
		t.Errorf("%d documents of %d parts and 4, cut %v, %v", len(docs), len(back), cut, err)
	}
}

func demoTokenizer(t testing.TB) *tokenizer.Tokenizer {
	t.Helper()
	f, err := gguf.Parse(demo.Name, demo.Model())
	if err != nil {
		t.Fatal(err)
	}
	tok, err := model.Tokenizer(f)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// No document is on both sides; sizes are as asked; the order of the documents in the text does not matter.
func TestDivide(t *testing.T) {
	tok := demoTokenizer(t)
	rng := testenv.Rand(t)
	var texts []string
	for i := range 60 {
		texts = append(texts, strings.Repeat(fmt.Sprintf("%d and the fox said to the crow ", i), 1+rng.IntN(30)))
	}
	read := func() (calibration, held []document) {
		docs, _, err := readDocuments([]string{writeFile(t, "t", strings.Join(texts, "\n</s>\n"))})
		if err != nil {
			t.Fatal(err)
		}
		return divide(tok, docs, 100, 300, 2000)
	}
	calibration, held := read()
	if n := countTokens(held); n != 300 {
		t.Errorf("%d tokens held out, not 300", n)
	}
	if n := countTokens(calibration); n != 2000 {
		t.Errorf("%d tokens of calibration, not 2000", n)
	}
	if len(withoutShared(held, calibration)) != len(held) {
		t.Errorf("a document is on both sides")
	}
	rng.Shuffle(len(texts), func(i, j int) { texts[i], texts[j] = texts[j], texts[i] })
	calibration2, held2 := read()
	if hashOf(calibration) != hashOf(calibration2) || hashOf(held) != hashOf(held2) {
		t.Errorf("the division depends on the order of documents")
	}
}

// TestWindowsAndPacks: windows contain every token once, after BOS, and steps contain every window once within a step's
// bounds.
func TestWindowsAndPacks(t *testing.T) {
	rng := testenv.Rand(t)
	for _, bos := range []int32{-1, 1} {
		var docs []document
		next := int32(2)
		for range 80 {
			var d document
			for range 1 + rng.IntN(1500)>>rng.IntN(8) {
				d.tokens = append(d.tokens, next)
				next++
			}
			docs = append(docs, d)
		}
		want := int32(2)
		for _, ws := range packs(windows(docs, windowTokens, bos)) {
			if len(ws) > maxSequences || tokensOf(ws) > stepTokens || len(ws) == 0 {
				t.Fatalf("a step of %d windows and %d tokens", len(ws), tokensOf(ws))
			}
			for _, w := range ws {
				body := w.tokens
				if bos >= 0 {
					if body[0] != bos {
						t.Fatalf("a window begins with %d", body[0])
					}
					body = body[1:]
				}
				for _, id := range body {
					if id != want || !slices.Contains(docs[w.document].tokens, id) {
						t.Fatalf("token %d of document %d, want %d", id, w.document, want)
					}
					want++
				}
			}
		}
		if want != next {
			t.Fatalf("%d of %d tokens are in windows", want, next)
		}
	}
}

func TestSeeds(t *testing.T) {
	all := seeds()
	if len(all) < 40 {
		t.Errorf("%d seed sentences", len(all))
	}
	slices.Sort(all)
	if n := len(slices.Compact(all)); n != len(seeds()) {
		t.Errorf("%d of %d seed sentences are different", n, len(seeds()))
	}
}

func matches(pattern, s string) bool { return regexp.MustCompile(pattern).MatchString(s) }
