package vulkan

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/driver"
	"github.com/powerinfer-go/powerinfer/internal/monotime"
	"github.com/powerinfer-go/powerinfer/internal/trace"
)

// event is a span of a written trace, times in microseconds.
type event struct {
	Name, Ph string
	Tid      trace.Track
	Ts, Dur  float64
}

func events(t *testing.T, l *trace.Log) (spans []event) {
	t.Helper()
	var text strings.Builder
	if err := l.Write(&text); err != nil {
		t.Fatal(err)
	}
	var got struct{ TraceEvents []event }
	if err := json.Unmarshal([]byte(text.String()), &got); err != nil {
		t.Fatal(err)
	}
	for _, e := range got.TraceEvents {
		if e.Ph == "X" {
			spans = append(spans, e)
		}
	}
	return spans
}

// stampedRuns returns the results of some runs of parts of two layers, with a turn of the host between them; before is
// called before each.
func stampedRuns(t *testing.T, d *Device, before func()) (results []float32) {
	t.Helper()
	const n = 3
	g := ground(t, d)
	x, y, out := g.x.First(n), g.y.First(n), g.out.First(n)
	body := func(v compute.Verbs) {
		r := v.Executor().(*recorder)
		v.Embed(x, g.table)
		seen := r.Download(x)
		var sent func() []float32
		r.Overlap(func(*compute.Params) error {
			copy(sent(), seen())
			return nil
		}, func() {
			r.about("blk.1.ffn_up.weight")
			v.Embed(out, g.table)
			r.about("blk.1.ffn_down.weight")
			v.Add(out, out)
		})
		sent = r.Upload(y)
		r.about("blk.2.attn_q.weight")
		v.Add(y, x)
		r.about("blk.2.ffn_up.weight")
		v.Add(y, out)
	}
	for i := range stampedTimes {
		before()
		if err := d.Run(compute.Segment{Name: "layers", Rows: n}, &compute.Params{Tokens: []int32{1, 2, int32(i)}}, body); err != nil {
			t.Fatal(err)
		}
		results = append(results, slices.Clone(readable(d.Read(y, n-1)))...)
	}
	return results
}

const stampedTimes = 4

// clockError bounds the error of comparing the two clocks: as long as the driver takes to answer, while other tests use
// all cores.
const clockError = 20_000 // µs

// TestStamps: the device's times for each part of a run are within that run by the host's clock, one part after the
// other, whichever way the clocks are compared. A trace changes no result.
func TestStamps(t *testing.T) {
	plain, messages := software(t, Options{})
	want := stampedRuns(t, plain, func() {})
	plain.Close()
	messages.check(t)
	for _, calibrated := range []bool{false, true} {
		l := trace.New()
		d, messages := software(t, Options{Trace: l})
		if !d.stamping() || calibrated && !d.stamps.calibrated {
			t.Logf("%s has no such time stamps (calibrated: %v)", d.Name(), calibrated)
			d.Close()
			continue
		}
		d.stamps.calibrated = calibrated
		var begun []float64
		got := stampedRuns(t, d, func() { begun = append(begun, float64(l.Now())/1e3) })
		begun = append(begun, float64(l.Now())/1e3)
		d.Close()
		messages.check(t)
		if !slices.Equal(got, want) {
			t.Errorf("with a trace %v, without %v", got, want)
		}
		names, last := map[string]int{}, 0.0
		for _, e := range events(t, l) {
			if e.Tid != trace.GPU || !strings.HasPrefix(e.Name, "blk.") {
				continue
			}
			run := min(names[e.Name], stampedTimes-1)
			names[e.Name]++
			if e.Ts < last-0.001 || e.Dur < 0 || e.Ts < begun[run]-clockError || e.Ts+e.Dur > begun[run+1]+clockError {
				t.Errorf("calibrated %v, run %d of %v: %+v, behind %g", calibrated, run, begun, e, last)
			}
			last = e.Ts + e.Dur
		}
		if names["blk.1.ffn"] != stampedTimes || names["blk.2.attn"] != stampedTimes || names["blk.2.ffn"] != stampedTimes {
			t.Errorf("calibrated %v: spans %v", calibrated, names)
		}
	}
}

// TestClocks: ticks become times where the device's counter starts anew, where it has few bits, and where its clock
// runs apart from the host's.
func TestClocks(t *testing.T) {
	g := &driver.GPU{Physical: &driver.Physical{StampBits: 36}, Trace: trace.New()}
	g.Limits.TimestampPeriod = 50
	s := &stamps{g: g, common: moment{1<<36 - 10, time.Second}}
	for tick, want := range map[uint64]time.Duration{
		1<<36 - 10:         time.Second,
		1<<36 - 30:         time.Second - 20*50,
		10:                 time.Second + 20*50,
		10 | 0xabc<<36:     time.Second + 20*50, // upper bits do not count
		1<<36 - 10 - 1<<20: time.Second - 50<<20,
	} {
		if got := s.when(tick); got != want {
			t.Errorf("tick %#x is at %v, want %v", tick, got, want)
		}
	}
	now := monotime.Now()
	submitted := now - time.Millisecond
	s.common = moment{1000, now - time.Second}
	if s.align(submitted, 1000, 1010); s.when(1000) != submitted {
		t.Errorf("a run that was submitted at %v began at %v", submitted, s.when(1000))
	}
	s.common = moment{1000, now + time.Hour}
	if s.align(submitted, 1000, 1010); s.when(1010) > monotime.Now() || s.when(1000) < submitted {
		t.Errorf("a run from %v until now, %v, was from %v to %v", submitted, monotime.Now(), s.when(1000), s.when(1010))
	}
	s = &stamps{g: g}
	if s.align(0, 1000, 2000); s.when(2000) > monotime.Now() || s.when(2000) < now || s.when(2000)-s.when(1000) != 1000*50 {
		t.Errorf("the first run was from %v to %v, it is %v", s.when(1000), s.when(2000), monotime.Now())
	}
}

// TestLayerPart: what is timed together.
func TestLayerPart(t *testing.T) {
	for weight, want := range map[string]string{
		"blk.3.ffn_up.weight": "blk.3.ffn", "blk.10.attn_output.bias": "blk.10.attn", "blk.3.fc1.weight": "blk.3.fc1",
		"token_embd.weight": "token_embd", "output_norm.weight": "output_norm", "": "", "blk.3.ffn_up.weight sent": "blk.3.ffn sent",
	} {
		if got := layerPart(weight); got != want {
			t.Errorf("%q belongs to %q, want %q", weight, got, want)
		}
	}
}
