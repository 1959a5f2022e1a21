package sweep

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"regexp"
	"strings"
	"testing"
)

// TestPage: the page loads nothing and escapes foreign names, and its pictures are complete and show every setting.
func TestPage(t *testing.T) {
	logit := func(v float32) *float32 { return &v }
	const evil = `<script>alert(1)</script>`
	rep := &Report{Model: Model{Name: evil}, Text: Text{Name: evil}, Bounds: Bounds{MaxKLD: 0.01}, Described: []string{`a"><b`}, Command: evil}
	add := func(s Setting, kld, rate float64) {
		p := made(kld, rate)
		p.Name, p.Setting, p.Within = s.Name(), s, kld <= 0.01
		p.Quality.Layers = []Layer{{"predict", 0.1, 0.2}}
		p.Expected = []Expected{{Machine: rep.Described[0], Rate: 2 * rate, Fits: true}}
		p.Scores = []Score{{Task: "arc", Metric: "acc"}}
		rep.Points = append(rep.Points, p)
	}
	add(Setting{Mode: "off"}, 0, 10)
	add(Setting{Mode: "exact"}, 1e-9, 12)
	for i, kld := range []float64{1e-4, 1e-3, 8e-3, 0.1} {
		add(Setting{Mode: "predict", Threshold: logit(float32(i - 2))}, kld, 15+float64(i))
	}
	add(Setting{Mode: "exact", Activation: evil}, 0.02, 11)
	rep.Points = append(rep.Points, Point{Name: "predict 0 4 GiB", Setting: Setting{Mode: "predict", Threshold: logit(0), Budget: 4 << 30}})
	add(Setting{Mode: "off", File: evil}, 9e-3, 30)
	rep.Points[len(rep.Points)-1].Name = evil
	rep.Others = []Model{{File: evil, Name: evil, Type: "Q4_0"}}
	rep.Layers = []Sensitivity{{Name: "predict 1", Layers: []Alone{{Layer: 3, KLDivergence: Figure{0.01, 0.001}}}}}
	fronts(rep.Points)
	rep.recommend()
	if len(rep.Best) != 2 || rep.Best[0].Name != "predict 0" || rep.Best[0].Dense != 10 || rep.Best[1].Rate != 34 {
		t.Errorf("recommended %+v", rep.Best)
	}
	var b strings.Builder
	if err := rep.HTML(&b); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	if strings.Contains(text, evil) || strings.Contains(text, `a"><b`) {
		t.Error("a name from outside is not escaped")
	}
	if from := regexp.MustCompile(`(src|href)=|url\(|@import|https?://[^w]`).FindString(text); from != "" {
		t.Errorf("the page loads %s", from)
	}
	pictures := regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(text, -1)
	if len(pictures) != 3+5+1+1 { // fronts; curves except those of predictors, which are unknown; bytes; layers; the task has only scores of 0
		t.Errorf("%d pictures", len(pictures))
	}
	for _, picture := range pictures {
		d := xml.NewDecoder(strings.NewReader(picture))
		for {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%v in %.300s", err, picture)
			}
		}
		if strings.Contains(picture, "NaN") || strings.Contains(picture, "Inf") {
			t.Errorf("a place in a picture is no number: %.600s", picture)
		}
	}
	if n := strings.Count(pictures[0], "<circle class=\"dot"); n != 7 {
		t.Errorf("%d points on the front's picture", n)
	}
	if n := strings.Count(pictures[0], `<path class="dot other"`); n != 1 {
		t.Errorf("%d marks of another file on the front's picture", n)
	}
	if n := strings.Count(text, "beside it, is faster within the bound"); n != 2 {
		t.Errorf("a faster file is told of %d times, not on this machine and the described one", n)
	}
	if err := (&Report{}).HTML(&b); err != nil {
		t.Errorf("a page of nothing: %v", err)
	}
}

// TestFrontPath: the dotted line joins the points of the table's front.
func TestFrontPath(t *testing.T) {
	rep := &Report{Bounds: Bounds{MaxKLD: 0.01}, Points: []Point{made(0, 10), made(0.001, 9), made(0.002, 20), made(0.03, 30), made(0.04, 25)}}
	fronts(rep.Points)
	on := 0
	for _, p := range rep.Points {
		if p.Front {
			on++
		}
	}
	path := regexp.MustCompile(`class="front" d="([^"]*)"`).FindStringSubmatch(rep.front(rep.axes()[0]))
	if on != 3 || path == nil || strings.Count(path[1], "V") != on-1 {
		t.Errorf("%d points are on the front, which is drawn as %q", on, path)
	}
}

func TestTicks(t *testing.T) {
	for _, s := range []scale{round(0, 1, 0, 100), round(3.7, 5, 0, 100), round(12000, 13000, 0, 100), {from: 1e-5, to: 0.02, end: 100, log: true}} {
		ticks := s.ticks(6)
		if len(ticks) < 3 || len(ticks) > 8 {
			t.Errorf("ticks from %g to %g: %v", s.from, s.to, ticks)
		}
		for _, v := range ticks {
			if at := s.at(v); at < -1e-6 || at > 100+1e-6 || math.IsNaN(at) {
				t.Errorf("%g of %g to %g lies at %g", v, s.from, s.to, at)
			}
		}
	}
	for v, want := range map[float64]string{0: "0", 0.01: "0.01", 1234567: "1,234,567", 0.00012: "0.00012", 4.9712: "4.97", 0.5: "0.5", -2: "-2", 1000: "1,000"} {
		if got := short(v); got != want {
			t.Errorf("%g is shown as %q, not %q", v, got, want)
		}
	}
}
