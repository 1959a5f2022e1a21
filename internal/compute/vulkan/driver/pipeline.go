package driver

import (
	"fmt"
	"runtime"
	"sync"
	"unsafe"

	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/shaders"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/vk"
)

// Variant is a shader with its specialisation: one pipeline.
type Variant struct {
	Shader string
	Local  uint32          // constant 0: invocations of a workgroup
	Spec   [MaxSpec]uint32 // constants 2 and on
	Specs  int             // of them in use
}

// MaxSpec bounds the number of a shader's own specialisation constants.
const MaxSpec = 13

// Pipelines are compiled when they are asked for or, in the background, when it is known that they will be. They live
// until the device is closed. Drivers compile in several threads at a time: vkCreateComputePipelines is safe to call
// so, and a pipeline cache is synchronised by the driver unless it was made with the flag that says otherwise.
type Pipelines struct {
	g       *GPU
	cache   vk.PipelineCache
	folder  string // of the cache on disk; empty: none
	modules map[string]func() (vk.ShaderModule, error)
	made    map[Variant]*making
	saved   int // pipelines that are in the cache on disk

	mu      sync.Mutex     // of modules, made, and what follows
	wanted  []Variant      // that no worker has taken
	workers int            // that run
	running sync.WaitGroup // workers
	closing bool
	told    func(gpu string, done, total int) // of what Want was given; may be nil
	done    int
	total   int
	kept    int // pipelines that were compiled

	unforeseen int
}

// making is a pipeline that was asked for.
type making struct {
	taken    bool          // by the thread that compiles it
	done     chan struct{} // closed when what follows is there
	pipeline vk.Pipeline
	err      error
}

// NewPipelines returns the pipelines of g. folder caches those that earlier processes compiled; empty: there is no
// cache. told, if not nil, gets how many of Want's variants are compiled, on any thread.
func NewPipelines(g *GPU, folder string, told func(gpu string, done, total int)) (*Pipelines, error) {
	p := &Pipelines{g: g, folder: folder, modules: map[string]func() (vk.ShaderModule, error){}, made: map[Variant]*making{}, told: told}
	return p, p.load()
}

// of returns the state of v, and whether it is new. p.mu is held.
func (p *Pipelines) of(v Variant) (m *making, isNew bool) {
	if m = p.made[v]; m != nil {
		return m, false
	}
	m = &making{done: make(chan struct{})}
	p.made[v] = m
	return m, true
}

// take reports whether the caller should make m. p.mu is held.
func (m *making) take() bool {
	mine := !m.taken
	m.taken = true
	return mine
}

// Get returns v's pipeline. It compiles v, or waits for the thread that does, unless that was done before.
func (p *Pipelines) Get(v Variant) (vk.Pipeline, error) {
	p.mu.Lock()
	m, isNew := p.of(v)
	if isNew {
		p.unforeseen++
	}
	mine := m.take()
	p.mu.Unlock()
	if mine {
		p.make(v, m)
	}
	<-m.done
	return m.pipeline, m.err
}

// Unforeseen returns how many pipelines were asked for that were not wanted before.
func (p *Pipelines) Unforeseen() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.unforeseen
}

// Busy reports whether pipelines are compiled in the background.
func (p *Pipelines) Busy() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.workers > 0
}

// Want compiles v in the background, because it will be asked for soon. Get returns its error.
func (p *Pipelines) Want(v Variant) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closing {
		return
	}
	if _, isNew := p.of(v); !isNew {
		return
	}
	p.wanted = append(p.wanted, v)
	p.total++
	if p.workers < runtime.GOMAXPROCS(0) {
		p.workers++
		p.running.Go(p.work)
	}
}

// work compiles wanted variants that nobody has asked for meanwhile, until none are left.
func (p *Pipelines) work() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.wanted) > 0 && !p.closing {
		v := p.wanted[0]
		p.wanted = p.wanted[1:]
		m := p.made[v]
		mine := m.take()
		p.mu.Unlock()
		if mine {
			p.make(v, m)
		}
		p.mu.Lock()
		p.done++
		if done, total := p.done, p.total; p.told != nil {
			p.mu.Unlock()
			p.told(p.g.Info.Name, done, total)
			p.mu.Lock()
		}
	}
	p.workers--
}

// make compiles v for all who wait for m.
func (p *Pipelines) make(v Variant, m *making) {
	defer close(m.done)
	module, err := p.module(v.Shader)
	if err == nil {
		m.pipeline, err = p.compile(v, module)
	}
	if err != nil {
		m.err = fmt.Errorf("shader %s on %s: %w", v.Shader, p.g.Info.Name, err)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kept++
}

// module returns the shader's module, which is made once.
func (p *Pipelines) module(name string) (vk.ShaderModule, error) {
	p.mu.Lock()
	get := p.modules[name]
	if get == nil {
		get = sync.OnceValues(func() (vk.ShaderModule, error) { return p.newModule(name) })
		p.modules[name] = get
	}
	p.mu.Unlock()
	return get()
}

func (p *Pipelines) newModule(name string) (vk.ShaderModule, error) {
	code, err := shaders.Code(name)
	if err != nil {
		return 0, err
	}
	defer Pinned(&code[0])()
	return p.g.VK.CreateShaderModule(&vk.ShaderModuleCreateInfo{SType: vk.StructureTypeShaderModuleCreateInfo, CodeSize: uintptr(4 * len(code)), PCode: &code[0]})
}

// Shaders that multiply by cooperative matrices, which may have another size of subgroups.
const (
	MatricesShader       = "cooperative"
	ExpertMatricesShader = "cooperative_experts"
	AttentionShader      = "attention_tile"
)

func (p *Pipelines) compile(v Variant, module vk.ShaderModule) (vk.Pipeline, error) {
	subgroup := p.g.Subgroup.Size
	if v.Shader == MatricesShader || v.Shader == ExpertMatricesShader || v.Shader == AttentionShader {
		subgroup = p.g.Matrices.Subgroup
	}
	constants := append([]uint32{v.Local, uint32(subgroup)}, v.Spec[:v.Specs]...)
	entries := make([]vk.SpecializationMapEntry, len(constants))
	for i := range entries {
		entries[i] = vk.SpecializationMapEntry{ConstantID: uint32(i), Offset: uint32(4 * i), Size: 4}
	}
	spec := &vk.SpecializationInfo{MapEntryCount: uint32(len(entries)), PMapEntries: &entries[0], DataSize: uintptr(4 * len(constants)), PData: unsafe.Pointer(&constants[0])}
	size := &vk.PipelineShaderStageRequiredSubgroupSizeCreateInfo{SType: vk.StructureTypePipelineShaderStageRequiredSubgroupSize, RequiredSubgroupSize: uint32(subgroup)}
	name := vk.CString("main")
	defer Pinned(&constants[0], &entries[0], spec, size, name)()
	info := &vk.ComputePipelineCreateInfo{
		SType: vk.StructureTypeComputePipelineCreateInfo, Layout: p.g.Layout, BasePipelineIndex: -1,
		Stage: vk.PipelineShaderStageCreateInfo{
			SType: vk.StructureTypePipelineShaderStageCreateInfo, Stage: vk.StageCompute, Module: module, PName: name, PSpecializationInfo: spec,
		},
	}
	if p.g.Subgroup.Required {
		info.Stage.PNext = unsafe.Pointer(size)
	}
	if p.g.Subgroup.Full && int(v.Local)%subgroup == 0 {
		info.Stage.Flags = vk.ShaderStageFullSubgroups
	}
	return p.g.VK.CreateComputePipeline(p.cache, info)
}

// Close saves the compiled pipelines and destroys them. Variants that are still wanted are not compiled any more.
func (p *Pipelines) Close() {
	p.mu.Lock()
	p.closing = true
	p.mu.Unlock()
	p.running.Wait()
	p.Save()
	for _, made := range p.made {
		p.g.VK.DestroyPipeline(made.pipeline)
	}
	for _, module := range p.modules {
		if m, err := module(); err == nil {
			p.g.VK.DestroyShaderModule(m)
		}
	}
	p.g.VK.DestroyPipelineCache(p.cache)
}
