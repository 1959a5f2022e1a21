package vulkan

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/devicetest"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// messages collects the validation layer's messages. Any message fails the test.
type messages struct {
	sync.Mutex
	all []string
}

func (m *messages) add(s string) {
	m.Lock()
	defer m.Unlock()
	m.all = append(m.all, s)
}

func (m *messages) check(t testing.TB) {
	t.Helper()
	if all := m.take(); len(all) > 0 {
		t.Errorf("validation: %d messages, the first: %s", len(all), all[0])
	}
}

// take returns the messages since it was last called.
func (m *messages) take() (all []string) {
	m.Lock()
	defer m.Unlock()
	all, m.all = m.all, nil
	return all
}

// deviceVariable is the environment variable that makes the tests run on another device than lavapipe: a GPU, as
// gpu-check does. There the validation layer may be missing.
const deviceVariable = "POWERINFER_TEST_DEVICE"

// software opens lavapipe with the validation layer, or skips the test.
func software(t testing.TB, o Options) (*Device, *messages) {
	t.Helper()
	m := &messages{}
	o.Device, o.Messages = Software, m.add
	gpu := os.Getenv(deviceVariable)
	if gpu != "" {
		o.Device = gpu
	}
	d, err := Open(o)
	if gpu != "" && err != nil && strings.Contains(err.Error(), "not installed") {
		o.Messages = nil
		d, err = Open(o)
	}
	if errors.Is(err, ErrNone) || err != nil && (strings.Contains(err.Error(), "no device is called") || strings.Contains(err.Error(), "not installed")) {
		testenv.Missing(t, "vulkan", err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	return d, m
}

// partVariable is the environment variable that says how many bytes the parts of a matrix have on the shared device.
const partVariable = "POWERINFER_TEST_PART"

// assistedVariable switches GPU-assisted validation on.
const assistedVariable = "POWERINFER_TEST_ASSISTED"

// shared is the device that tests lend each other, so that its pipelines are compiled once in a process.
var shared struct {
	*Device
	messages *messages
}

// lent returns the shared device. The test's end frees what it left there, and fails the test for what the validation
// layer said meanwhile, of any device.
func lent(t testing.TB) *Device {
	t.Helper()
	if shared.Device == nil {
		part, _ := strconv.ParseInt(os.Getenv(partVariable), 10, 64)
		shared.Device, shared.messages = software(t, Options{maxBinding: part, assisted: os.Getenv(assistedVariable) != ""})
	}
	t.Cleanup(func() {
		shared.reset()
		if err := shared.gpu.Lost; err != nil {
			t.Error(err)
		}
		shared.messages.check(t)
	})
	return shared.Device
}

// lasting is the shared device for the conformance suite: closed, it only frees its memory and goes back to where it
// came from. Every run has a segment of its own, because the suite's segments have other verbs each time.
type lasting struct {
	*Device
	t    testing.TB
	idle chan *lasting
	runs int
}

func (l *lasting) Run(seg compute.Segment, p *compute.Params, body func(compute.Verbs)) error {
	l.runs++
	seg.Name = fmt.Sprintf("%s, run %d", seg.Name, l.runs)
	return l.Device.Run(seg, p, body)
}

func (l *lasting) Close() error {
	l.reset()
	shared.messages.check(l.t)
	l.idle <- l
	return l.gpu.Lost
}

// TestConformance holds lavapipe to the scalar device.
func TestConformance(t *testing.T) {
	idle := make(chan *lasting, 1)
	idle <- &lasting{Device: lent(t), idle: idle}
	device := func(t *testing.T) compute.Device {
		l := <-idle
		l.t = t
		return l
	}
	// Layers with their cache on a GPU attend to latent vectors themselves: see compute.Device.ExpandsLatent.
	devicetest.Promise{Halves: true, Slow: true, Lacks: []string{"AttendLatent"}}.Run(t, devicetest.Family{device})
}

// TestVariants plays a part of the suite in processes where the validation layer checks the address of every access,
// where lavapipe's subgroups have other sizes than its eight, and where matrices are cut into many bindings, as the
// largest are on a GPU.
func TestVariants(t *testing.T) {
	if !testenv.Exhaustive(t) {
		t.Skip("runs parts of the suite again")
	}
	d, _ := software(t, Options{})
	d.Close()
	const (
		largestRow = 32 << 10 // of the suite's matrices, with everything that belongs to a row
		// Shaders are compiled anew in every process, and slowly where they check themselves.
		checked  = "^TestConformance$/^(AddPosition|LayerNorm|MatMul|RoPE)$/^(F16|Q4_0|4096_columns|halves)$"
		parts    = "^TestConformance$/^(AddPosition|MatMul|SparseFFN)$/^(F16|Q4_0)$"
		subgroup = "^TestConformance$/^(LayerNorm|MatMul|SparseFFN|Attention)$/^(Q4_0|F16|4096_columns|heads_of_128,_2×4)$"
	)
	for variable, tests := range map[string]string{
		assistedVariable + "=1":                        checked,
		"LP_NATIVE_VECTOR_WIDTH=128":                   subgroup,
		"LP_NATIVE_VECTOR_WIDTH=512":                   subgroup,
		fmt.Sprintf("%s=%d", partVariable, largestRow): parts,
	} {
		t.Run(variable, func(t *testing.T) {
			t.Parallel()
			child(t, []string{variable}, "-test.run="+tests, "-test.short")
		})
	}
}

// readable returns v; an error of a device that tests have to themselves ends them.
func readable[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
