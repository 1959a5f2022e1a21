package hybrid

import "github.com/powerinfer-go/powerinfer/internal/compute"

// choice is a choice's memory on both devices, and where its content is.
type choice struct {
	gpu, host     compute.Choice
	onGPU, onHost bool
}

// Choice allocates choices on both devices.
func (d *Device) Choice(rows, used, n int) (compute.Choice, error) {
	host, err := d.host.Choice(rows, used, n)
	if err != nil {
		return compute.Choice{}, err
	}
	return d.choice(host)
}

// choice returns choices on both devices whose memory on the host is host's.
func (d *Device) choice(host compute.Choice) (compute.Choice, error) {
	gpu, err := d.gpu.Choice(host.Rows, host.Used, host.N)
	if err != nil {
		return compute.Choice{}, d.ofGPU(err)
	}
	return compute.Choice{Rows: host.Rows, Used: host.Used, N: host.N, Mem: &choice{gpu: gpu, host: host}}, nil
}

func choiceOf(c compute.Choice) *choice { return c.Mem.(*choice) }

func choiceView(c, memory compute.Choice) compute.Choice {
	c.Mem = memory.Mem
	return c
}

func gpuChoice(c compute.Choice) compute.Choice  { return choiceView(c, choiceOf(c).gpu) }
func hostChoice(c compute.Choice) compute.Choice { return choiceView(c, choiceOf(c).host) }

// choiceToGPU has the GPU's memory hold c, which may be nil.
func (r *router) choiceToGPU(c *compute.Choice) {
	if c == nil || choiceOf(*c).onGPU {
		return
	}
	r.meet(nil)
	choiceOf(*c).onGPU = true
	from, to := hostChoice(*c), r.gpu.UploadChoice(gpuChoice(*c))
	r.last.stores = append(r.last.stores, func(w *window) { r.d.host.ChoiceData(w.choice(from), w.tokens(to())) })
}

// choiceToHost has the host's memory hold c, which may be nil.
func (r *router) choiceToHost(c *compute.Choice) {
	if c == nil || choiceOf(*c).onHost {
		return
	}
	choiceOf(*c).onHost = true
	to, from := hostChoice(*c), r.gpu.DownloadChoice(gpuChoice(*c))
	s := r.stretch()
	s.loads = append(s.loads, func(w *window) { r.d.host.FillChoice(w.choice(to), w.tokens(from())) })
}
