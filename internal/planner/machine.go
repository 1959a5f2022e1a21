package planner

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"

	"github.com/powerinfer-go/powerinfer/internal/compute/hybrid"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan"
	"github.com/powerinfer-go/powerinfer/internal/measure"
	"github.com/powerinfer-go/powerinfer/internal/modelcost"
	"github.com/powerinfer-go/powerinfer/internal/placement"
	"github.com/powerinfer-go/powerinfer/internal/setting"
)

// Machine is a machine to plan for: this one with the GPUs that were chosen, or one that is described.
type Machine struct {
	Memory   uint64            // bytes of RAM; 0: unknown
	figures  measure.Machine   // figures of a measured machine
	stated   placement.Machine // else: RAM's bandwidths and the hand-off
	measured bool
	gpus     []gpu
	ssd      float64       // bytes per second that are stated of its disk; 0: nothing is
	disk     *measure.Disk // nil: it was not measured
}

// Products returns how many multiplications and additions a second the processor reaches in a prompt's products; 0: it
// is not known.
func (m *Machine) Products() float64 { return m.figures.Products }

// gpu is a GPU that a plan may use.
type gpu struct {
	name     string
	info     vulkan.Info  // that memory is counted for; of a described GPU it is none
	device   string       // as vulkan.Options has it; empty: it is described
	memory   int64        // bytes that may be in use
	software bool         // it is named to try the GPU's path, so it gets what a GPU would
	read     float64      // bytes per second; 0: unknown
	launch   float64      // seconds a layer
	handOff  float64      // seconds
	known    *measure.GPU // what streaming needs; nil: nothing is sent because that would be faster
}

// What is assumed of GPUs that were not measured: this share of the bandwidth that is stated of their memory, and so
// many seconds for a hand-off and for a layer's launches. docs/placement.md says where the figures are from.
const (
	assumedRead    = 0.85
	assumedHandOff = 50e-6
	assumedLaunch  = 30e-6
)

// reserve is the share of a GPU's memory that is used where nobody says how much: the driver, a desktop and
// fragmentation take the rest.
const reserve = 0.94

// Budget returns how much of a GPU's free memory is used if the user names no budget. [bytes]
func Budget(free int64) int64 { return int64(reserve * float64(free)) }

// GPUs returns how many GPUs a plan may use.
func (m *Machine) GPUs() int { return len(m.gpus) }

// Software reports whether GPU j is software that computes on the CPU. No plan predicts its speed.
func (m *Machine) Software(j int) bool { return m.gpus[j].software }

// Predictable reports whether the speed of a plan can be told: there is no software among the GPUs.
func (m *Machine) Predictable() bool {
	return !slices.ContainsFunc(m.gpus, func(g gpu) bool { return g.software })
}

// Doubts says what makes the machine's figures doubtful, a sentence each.
func (m *Machine) Doubts() []string {
	if t := m.figures.Taken; t != nil {
		return t.Doubts
	}
	return nil
}

// Measured returns a machine by its figures, with the GPUs that are used by default.
func Measured(figures measure.Machine) *Machine {
	m := &Machine{Memory: figures.Memory, figures: figures, measured: true}
	if len(figures.Disks) > 0 {
		m.disk = &figures.Disks[0]
	}
	for j := range figures.GPUs {
		if k := &figures.GPUs[j]; k.Usable() {
			m.gpus = append(m.gpus, gpu{name: k.Name, memory: k.Memory, read: k.Read, launch: k.Launch, handOff: k.HandOff, known: k})
		}
	}
	return m
}

// On returns a machine by its figures, with GPUs of this machine.
func On(figures measure.Machine, infos []vulkan.Info) *Machine {
	m := &Machine{Memory: figures.Memory, figures: figures, measured: true}
	for _, info := range infos {
		g := gpu{name: info.Name, info: info, device: strconv.Itoa(info.Index), memory: info.Free, software: info.Kind == vulkan.CPU, launch: assumedLaunch, handOff: assumedHandOff}
		if g.software {
			g.launch, g.handOff = 0, 0
		} else if k := known(&m.figures, info); k != nil {
			g.read, g.launch, g.handOff, g.known = k.Read, k.Launch, k.HandOff, k
		}
		m.gpus = append(m.gpus, g)
	}
	return m
}

// known returns what was measured of a GPU, or nil.
func known(m *measure.Machine, info vulkan.Info) *measure.GPU {
	for i := range m.GPUs {
		if k := &m.GPUs[i]; k.Name == info.Name && k.UUID == info.UUID && k.Lacks == "" {
			return k
		}
	}
	return nil
}

// Add adds a described GPU with that many bytes of memory, read at a stated bandwidth in bytes per second.
func (m *Machine) Add(name string, memory int64, bandwidth float64) {
	m.gpus = append(m.gpus, gpu{name: name, memory: memory, read: assumedRead * bandwidth, launch: assumedLaunch, handOff: assumedHandOff})
}

// on returns the machine in the form that placement takes, for a model with neurons' rows of that many bytes and type.
func (m *Machine) on(rowBytes int, of string) placement.Machine {
	on := m.stated
	if m.measured {
		on = m.figures.Placement(rowBytes)
		on.GPUs, on.HandOff = nil, 0
	}
	for _, g := range m.gpus {
		c := placement.GPU{Name: g.name, Read: g.read, Launch: g.launch, Budget: Budget(g.memory)}
		if g.known != nil {
			c.Speeds = g.known.SpeedsOf(of)
		}
		switch {
		case g.software:
			c.Read = 10 * on.Stream
		case g.read == 0:
			c.Read = on.Stream
		}
		on.GPUs, on.HandOff = append(on.GPUs, c), max(on.HandOff, g.handOff)
	}
	return on
}

// This is this machine with the GPUs that o.Device chooses, or those that are used by default. why says why there are
// none, where nobody named one.
func This(ctx context.Context, o *Options) (m *Machine, why, err error) {
	all, none := vulkan.Devices() // once: drivers take their time
	infos, why, err := chosen(all, none, o.Devices)
	if err != nil {
		return nil, nil, err
	}
	figures, err := Figures(ctx, all, o.Measuring)
	if err != nil {
		return nil, nil, err
	}
	return On(figures, infos), why, nil
}

// gpusOf is this machine with the GPUs that o.Device chooses; nil where there are none.
func gpusOf(ctx context.Context, o *Options) (*Machine, error) {
	if o.Devices == vulkan.None {
		return nil, nil
	}
	all, none := vulkan.Devices()
	infos, why, err := chosen(all, none, o.Devices)
	if err != nil {
		return nil, err
	}
	if len(infos) == 0 {
		if why != nil && o.asked() {
			o.notice("%v; the model is computed on the processor", why)
		}
		return nil, nil
	}
	if err := checkCount(o.VRAM, len(infos)); err != nil { // before measuring, which takes seconds
		return nil, err
	}
	figures, err := Figures(ctx, all, o.Measuring)
	if err != nil {
		return nil, err
	}
	return On(figures, infos), nil
}

// chosen returns the devices out of all that list names, or the default ones. If there are none and the user named
// none, why gives the reason.
func chosen(all []vulkan.Info, none error, list string) (infos []vulkan.Info, why, err error) {
	if list == vulkan.None {
		return nil, nil, nil
	}
	if err = none; err == nil {
		infos, err = vulkan.ChooseAll(all, list)
	}
	if list == "" && err != nil {
		return nil, err, nil
	}
	return infos, nil, err
}

// Figures are this machine's and all its GPUs', kept from an earlier time or measured now, which takes seconds. Kernels
// are among them if they were measured.
func Figures(ctx context.Context, all []vulkan.Info, progress func(done, total int64)) (measure.Machine, error) {
	return figuresBy(ctx, measure.Of, all, progress)
}

// AllFigures are Figures with the processor's kernels.
func AllFigures(ctx context.Context, all []vulkan.Info, progress func(done, total int64)) (measure.Machine, error) {
	return figuresBy(ctx, measure.WithKernels, all, progress)
}

// measuring is measure.Of, or measure.WithKernels.
type measuring func(ctx context.Context, path string, found []measure.Found, progress func(done, total int64)) (measure.Machine, error)

func figuresBy(ctx context.Context, take measuring, all []vulkan.Info, progress func(done, total int64)) (measure.Machine, error) {
	path, err := measure.CacheFile()
	if err != nil {
		path = "" // without a home folder nothing is kept
	}
	if progress == nil {
		progress = func(int64, int64) {}
	}
	return take(ctx, path, Found(all), progress)
}

// Kept reports whether this machine's figures were kept from an earlier time, so that This takes no time for measuring.
func Kept() bool {
	_, ok := kept()
	return ok
}

// kept returns this machine's figures if they were kept from an earlier time.
func kept() (m measure.Machine, ok bool) {
	path, err := measure.CacheFile()
	if err != nil {
		return m, false
	}
	all, _ := vulkan.Devices()
	return measure.Cached(path, Found(all))
}

// Forget drops the figures that were kept.
func Forget() {
	if path, err := measure.CacheFile(); err == nil {
		_ = os.Remove(path)
	}
}

// Found returns all devices as measure takes them.
func Found(all []vulkan.Info) []measure.Found {
	usual := vulkan.Usual(all)
	var found []measure.Found
	for _, d := range all {
		f := measure.Found{ID: measure.ID{
			Name: d.Name, Driver: d.Driver, UUID: d.UUID, Memory: d.Memory, Software: d.Kind == vulkan.CPU,
			Spare: d.Kind != vulkan.CPU && !slices.Contains(usual, d),
		}}
		switch {
		case d.Lacks != "":
			f.Lacks = "it " + d.Lacks
		case f.Software: // how fast it is says nothing: it is there for tests
			f.Lacks = "it is software on the processor, which computes only where it is named"
		default:
			f.Open = func() (measure.Device, error) {
				return vulkan.Open(vulkan.Options{Device: strconv.Itoa(d.Index), Cache: pipelineCache()})
			}
		}
		found = append(found, f)
	}
	return found
}

// checkCount reports an error unless there is one budget for all GPUs or one for each.
func checkCount(asked []int64, gpus int) error {
	if len(asked) > 1 && len(asked) != gpus {
		return fmt.Errorf("%d budgets, and GPUs in use: %d; give one for all or one for each", len(asked), gpus)
	}
	return nil
}

// budgets makes asked, one for all GPUs or one for each, on's budgets. No more is used of a GPU than there is: more
// would fail at load, or make the driver page.
func (m *Machine) budgets(asked []int64, on *placement.Machine, notice func(string, ...any)) error {
	if asked == nil {
		return nil
	}
	if err := checkCount(asked, len(m.gpus)); err != nil {
		return err
	}
	for j, g := range m.gpus {
		c := &on.GPUs[j]
		if c.Budget = asked[min(j, len(asked)-1)]; c.Budget < 0 {
			return fmt.Errorf("a budget of %d bytes for %s is less than none", c.Budget, g.name)
		}
		if c.Budget > g.memory {
			c.Budget = g.memory
			notice("of %s %.2f GiB are free: no more is used", g.name, gib(c.Budget))
		}
	}
	return nil
}

// Solution is a plan of where the parts of a model are stored, together with the machine that it is for.
type Solution struct {
	Plan    placement.Plan
	Machine placement.Machine  // with budgets, and with the memory that computing takes on each GPU
	Most    []int64            // what computing takes there with any plan, about
	Streams []hybrid.Streaming // [GPUs]
}

// Solve plans for the budgets that are left of the machine's GPUs. Parts that are on a GPU stay there.
func (p *Planner) Solve() (Solution, error) { return p.once(&p.still, &p.cost) }

// once returns the solution for b, which is kept.
func (p *Planner) once(kept **Solution, b *modelcost.Cost) (Solution, error) {
	if *kept == nil {
		s, err := p.solve(b)
		if err != nil {
			return s, err
		}
		*kept = &s
	}
	return **kept, nil
}

// solve plans for b, which differs from the planner's cost in how often units are used, at most.
func (p *Planner) solve(b *modelcost.Cost) (Solution, error) {
	m := p.machine
	s := Solution{Machine: m.on(b.RowBytes, b.Type)}
	notice := p.o.notice
	if p.solved { // it was said
		notice = func(string, ...any) {}
	}
	if !p.solved {
		if err := p.pin(); err != nil {
			return s, err
		}
	}
	p.solved = true
	if err := m.budgets(p.o.VRAM, &s.Machine, notice); err != nil {
		return s, err
	}
	for j := range m.gpus {
		c := &s.Machine.GPUs[j]
		if c.Budget = int64(p.share * float64(c.Budget)); p.failed[j] {
			c.Budget = 0
		}
		s.Streams = append(s.Streams, m.streaming(j, p.o.StreamTokens, b, c.Budget))
	}
	err := p.fit(&s, b, p.solver())
	if (err != nil || s.Plan.Disk.Lacks > 0) && p.o.StreamTokens == nil && slices.ContainsFunc(s.Streams, hybrid.Streaming.Sends) { // there is no room for what is sent
		clear(s.Streams)
		err = p.fit(&s, b, p.solver())
	}
	if err == nil && p.o.Layers == nil && p.readsLayers(&s, b) {
		err = p.fit(&s, b, func(m placement.Model, on placement.Machine) (placement.Plan, error) {
			_, plan, err := placement.MostWhole(m, on)
			return plan, err
		})
	}
	if err != nil {
		return s, err
	}
	if err := reprice(&b.Model, &s.Machine, &s.Plan); err != nil {
		return s, err
	}
	for j := range m.gpus {
		s.Machine.GPUs[j].Overhead = s.Plan.VRAM[j]
	}
	for _, y := range s.Plan.Layers {
		if y.VRAM > 0 {
			s.Machine.GPUs[y.Tier].Overhead -= y.VRAM
		}
	}
	return s, nil
}

// fit plans for the budgets and the streams of s.
func (p *Planner) fit(s *Solution, b *modelcost.Cost, by solve) (err error) {
	s.Most = nil
	for j := range p.machine.gpus {
		c := &s.Machine.GPUs[j]
		if c.Overhead, err = p.machine.most(b, j, s.Streams[j]); err != nil {
			return err
		}
		s.Most = append(s.Most, c.Overhead)
	}
	s.Plan, err = p.solveTiers(b, &s.Machine, s.Streams, func(on placement.Machine) (placement.Plan, error) {
		return p.machine.fit(b, on, s.Streams, p.o.ReadAhead, by)
	})
	return err
}

// staged returns the bytes of RAM that weights pass through on their way to GPUs.
func staged(streams []hybrid.Streaming) (n int64) {
	for j := range streams {
		n += streams[j].Staged()
	}
	return n
}

// pin holds tensors to where Options.Tensors says, and attention to RAM where Options.KVInRAM does.
func (p *Planner) pin() error {
	list, err := modelcost.ParseOverrides(p.o.Tensors, p.machine.buffers())
	if err != nil {
		return err
	}
	unmatched, err := p.cost.Pin(list)
	for _, pattern := range unmatched {
		p.o.notice("no tensor of the model matches the pattern %q", pattern)
	}
	if err != nil || !p.o.KVInRAM {
		return err
	}
	return p.cost.PinKV()
}

// buffers returns the names of the GPUs as buffer types of tensors: llama.cpp's, with the numbers of --list-devices.
func (m *Machine) buffers() []string {
	var names []string
	for j, g := range m.gpus {
		number := g.device
		if number == "" { // described
			number = strconv.Itoa(j)
		}
		names = append(names, "Vulkan"+number)
	}
	return names
}

// solver places neurons by what they save, or whole layers if it was said how many; as in llama.cpp, a negative number
// means all.
func (p *Planner) solver() func(placement.Model, placement.Machine) (placement.Plan, error) {
	if p.o.Layers == nil {
		return placement.Solve
	}
	return func(m placement.Model, on placement.Machine) (placement.Plan, error) {
		n := *p.o.Layers
		if n < 0 {
			n = len(m.Layers) + 1
		}
		plan, err := placement.Whole(m, on, n)
		if err != nil {
			err = setting.Errorf("%s: %w; give less or more %s", setting.GPULayers.To(*p.o.Layers), err, setting.Budgets)
		}
		return plan, err
	}
}
