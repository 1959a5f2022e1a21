package neuronreport

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image"
	"image/color"
	"image/png"
	"io"
	"math"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/neuron"
)

// sample are layers of a power law that steepens with depth, neurons in random order, a hundredth always on, a
// twentieth dead.
func sample(layers, ff int) *neuron.Stats {
	r := rand.New(rand.NewPCG(1, 2))
	s := neuron.New(layers, ff)
	s.Tokens = 100_000
	for l, counts := range s.Layers {
		exponent := 0.6 + 0.6*float64(l)/float64(layers)
		for rank, at := range r.Perm(ff)[:ff-ff/20] {
			counts[at] = uint32(min(1, 0.9*math.Pow(float64(rank+1)/(float64(ff)/100), -exponent)) * float64(s.Tokens))
		}
	}
	return s
}

func portrait(t *testing.T, model string, s *neuron.Stats) *Report {
	t.Helper()
	p, err := New(model, s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func picture(t *testing.T, write func(io.Writer) error) image.Image {
	t.Helper()
	var b bytes.Buffer
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(&b)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// at returns the colour at a share of the frame, from its lower left.
func at(img image.Image, frameHeight, x, y float64) color.NRGBA {
	width := chartWidth - marginLeft - marginRight
	return color.NRGBAModel.Convert(img.At(int((marginLeft+width*x)*density), int((marginTop+frameHeight*(1-y))*density))).(color.NRGBA)
}

func TestFiguresByHand(t *testing.T) {
	s := &neuron.Stats{Tokens: 10, Layers: [][]uint32{{3, 10, 1, 6}, {0, 0}}}
	p := portrait(t, "m", s)
	want := Figures{Layer: 0, Neurons: 4, Sparsity: 0.5, Share50: 0.25, Share80: 0.5, Share90: 0.75, Share99: 1, AlwaysOn: 1}
	if p.Figures[0] != want {
		t.Errorf("%+v", p.Figures[0])
	}
	if want := (Figures{Layer: 1, Neurons: 2, Sparsity: 1, Dead: 2}); p.Figures[1] != want {
		t.Errorf("%+v", p.Figures[1])
	}
	all := p.Overall()
	if all.Neurons != 6 || all.Dead != 2 || all.AlwaysOn != 1 || math.Abs(all.Sparsity-2.0/3) > 1e-12 || all.Share80 != 0.25 {
		t.Errorf("%+v", all)
	}
	var b strings.Builder
	if err := p.Table(&b); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(b.String(), "\n")
	if len(lines) != 5 || !strings.Contains(lines[1], " 50.00%   25.00%   50.00%   75.00%  100.00% ") || !strings.HasPrefix(lines[3], "  all        6    66.67%") {
		t.Errorf("\n%s", &b)
	}
}

func TestNothingToDraw(t *testing.T) {
	for name, s := range map[string]*neuron.Stats{
		"no layers": {Tokens: 1}, "no tokens": neuron.New(1, 1), "broken": {Tokens: 1, Layers: [][]uint32{{2}}},
	} {
		if _, err := New("m", s); err == nil {
			t.Errorf("%s: drawn", name)
		}
	}
	p := portrait(t, "m", sample(2, 20))
	p.Predictors = make([]Predictor, 3)
	if err := p.Report(io.Discard); err == nil {
		t.Error("predictors of another model")
	}
}

// TestCurvesLieWhereTheyShould: equally hot neurons give the diagonal; a layer in which one neuron of ten does
// everything gives the upper edge.
func TestCurvesLieWhereTheyShould(t *testing.T) {
	flat := neuron.New(2, 1000)
	flat.Tokens = 100
	for i := range 1000 {
		flat.Layers[0][i] = 50
		if i < 100 {
			flat.Layers[1][i] = 80
		}
	}
	img := picture(t, portrait(t, "m", flat).Curves)
	near := func(x, y float64, want color.NRGBA) {
		t.Helper()
		if got := at(img, curvesHeight, x, y); got != want {
			t.Errorf("at %g, %g: %v, want %v", x, y, got, want)
		}
	}
	near(0.5, 0.5, depth(0, 2).color)
	near(0.05, 0.5, depth(1, 2).color)
	near(0.9, 0.7, paper.color)
	near(0.3, 0.7, paper.color)
}

func TestHeatMapColours(t *testing.T) {
	s := neuron.New(4, 100)
	s.Tokens = 1000
	for i := range 50 { // half of layer 1 always, layer 2 for a tenth of tokens
		s.Layers[1][i] = 1000
		s.Layers[2][2*i], s.Layers[2][2*i+1] = 100, 100
	}
	p := portrait(t, "m", s)
	img := picture(t, p.HeatMap)
	h := p.mapHeight()
	for _, c := range []struct {
		x, y float64
		want color.NRGBA
	}{
		{0.25, 0.875, inferno[0]},
		{0.25, 0.625, inferno[8]},
		{0.75, 0.625, inferno[0]},
		{0.5, 0.375, shade(inferno, 2.0/3)},
		{0.5, 0.125, inferno[0]},
	} {
		got := at(img, h, c.x, c.y)
		if d := math.Abs(float64(got.R)-float64(c.want.R)) + math.Abs(float64(got.G)-float64(c.want.G)); d > 2 {
			t.Errorf("at %g, %g: %v, want %v", c.x, c.y, got, c.want)
		}
	}
}

func TestShadesRise(t *testing.T) {
	for name, colours := range map[string][]color.NRGBA{"inferno": inferno, "plasma": plasma} {
		last := -1.0
		for i := range 101 {
			c := shade(colours, float64(i)/100)
			light := 0.2126*float64(c.R) + 0.7152*float64(c.G) + 0.0722*float64(c.B)
			if light < last-0.5 {
				t.Errorf("%s darkens at %d %%", name, i)
			}
			last = light
		}
	}
	if shade(inferno, -1) != inferno[0] || shade(inferno, 2) != inferno[8] {
		t.Error("values out of range")
	}
}

// Layers of any number and width can be drawn, dead ones and single neurons too.
func TestShapes(t *testing.T) {
	uneven := &neuron.Stats{Tokens: 7, Layers: [][]uint32{{7}, make([]uint32, 3), {1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4}, {}}}
	for name, s := range map[string]*neuron.Stats{"one": {Tokens: 1, Layers: [][]uint32{{1}}}, "dead": {Tokens: 1, Layers: [][]uint32{{0}}}, "uneven": uneven, "deep": sample(60, 40)} {
		p := portrait(t, name, s)
		for _, write := range []func(io.Writer) error{p.Curves, p.Ranks, p.HeatMap} {
			picture(t, write)
		}
		if err := p.Report(io.Discard); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The page loads nothing, runs only its own script, and shows names from outside as text.
func TestReportIsSelfContainedAndEscapes(t *testing.T) {
	const evil = `</title></svg><script>alert(1)</script><img src=x onerror=alert(1)>"'&`
	p := portrait(t, evil, sample(3, 200))
	p.Facts = []Fact{{evil, evil}}
	for l := range p.Figures {
		p.Predictors = append(p.Predictors, Predictor{Mode: evil, Rank: 64 + l, Measured: l > 0, Recall: 0.99, Bytes: 3 << 20})
	}
	var b bytes.Buffer
	if err := p.Report(&b); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	if n := strings.Count(page, "<script"); n != 1 {
		t.Errorf("%d scripts", n)
	}
	if strings.Contains(page, "<img") || strings.Contains(page, "ZgotmplZ") {
		t.Error("markup from outside, or a value the template refused")
	}
	for _, m := range regexp.MustCompile(`(?:src|href|url)\s*[=(]\s*["']?([^"')]{0,40})`).FindAllStringSubmatch(strings.ReplaceAll(page, "src=x onerror", ""), -1) {
		if !strings.HasPrefix(m[1], "data:image/png;base64,") {
			t.Errorf("the page refers to %q", m[1])
		}
	}
	for _, m := range regexp.MustCompile(`\w+://[^"' ]*`).FindAllString(page, -1) {
		if m != "http://www.w3.org/2000/svg" { // the name of the language, which nothing loads
			t.Errorf("the page mentions %s", m)
		}
	}
	for _, want := range []string{"default-src 'none'", "prefers-color-scheme: dark", "64", "3.0 MiB", `stroke-width="1" stroke-linejoin="round" class="stroke-grid"`, `stroke="` + hex(depth(1, 3).color) + `"`, `--share:0.99"`, "&lt;script&gt;alert(1)"} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is not in the page", want)
		}
	}
	drawings := regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(page, -1)
	if len(drawings) != 3 {
		t.Fatalf("%d drawings", len(drawings))
	}
	for i, d := range drawings {
		for dec := xml.NewDecoder(strings.NewReader(d)); ; {
			if _, err := dec.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("drawing %d: %v", i, err)
			}
		}
	}
	if rows := strings.Count(page, "<tr><td>"); rows != 3+3+1 {
		t.Errorf("%d rows", rows)
	}
}

func TestSameBytes(t *testing.T) {
	s := sample(5, 500)
	p, q := portrait(t, "m", s), portrait(t, "m", s)
	for name, write := range map[string][2]func(io.Writer) error{
		"curves": {p.Curves, q.Curves}, "ranks": {p.Ranks, q.Ranks}, "map": {p.HeatMap, q.HeatMap}, "report": {p.Report, q.Report},
	} {
		var a, b bytes.Buffer
		if write[0](&a) != nil || write[1](&b) != nil || !bytes.Equal(a.Bytes(), b.Bytes()) {
			t.Errorf("%s differs from run to run", name)
		}
	}
}

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"Llama 2 · 7B": "Llama 2 · 7B", "a\nb\x1b[31m\u0085": "a b [31m ", "x\u202ey": "x y", "\xff": "�",
		strings.Repeat("é", 90): strings.Repeat("é", 79) + "…",
	} {
		if got := printable(in); got != want {
			t.Errorf("%q became %q, not %q", in, got, want)
		}
	}
}

func TestNumbers(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 352256: "352,256", 1234567: "1,234,567"} {
		if got := grouped(n); got != want {
			t.Errorf("%d became %s", n, got)
		}
	}
	for n, want := range map[int64]string{0: "–", 512: "0.5 KiB", 3 << 20: "3.0 MiB", 5 << 29: "2.50 GiB"} {
		if got := size(n); got != want {
			t.Errorf("%d bytes became %s", n, got)
		}
	}
	if got := decades(1e-3, 1); len(got) != 4 || math.Abs(got[0]-1e-3) > 1e-12 || got[3] != 1 {
		t.Errorf("decades %v", got)
	}
}

func TestDashesCoverTheirShare(t *testing.T) {
	length := 0.0
	for _, d := range dashes([]point{{0, 0}, {30, 40}, {30, 100}}, 6, 5) { // 110 long: ten periods of 11, across a corner
		length += math.Hypot(d[1].x-d[0].x, d[1].y-d[0].y)
	}
	if math.Abs(length-60) > 1e-6 {
		t.Errorf("dashes of %g in all, want 60", length)
	}
}

func BenchmarkReport70B(b *testing.B) {
	s := sample(80, 28672)
	for b.Loop() {
		p, err := New("70B", s)
		if err != nil {
			b.Fatal(err)
		}
		for _, write := range []func(io.Writer) error{p.Curves, p.Ranks, p.HeatMap, p.Report} {
			if err := write(io.Discard); err != nil {
				b.Fatal(err)
			}
		}
	}
}
