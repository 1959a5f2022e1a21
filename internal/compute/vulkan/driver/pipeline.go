package driver

import (
	"fmt"
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
const MaxSpec = 12

// Pipelines are compiled as they are asked for, and live until the device is closed.
type Pipelines struct {
	g       *GPU
	cache   vk.PipelineCache
	folder  string // of the cache on disk; empty: none
	modules map[string]vk.ShaderModule
	made    map[Variant]vk.Pipeline
	saved   int // pipelines that are in the cache on disk
}

// NewPipelines returns the pipelines of g, of which folder keeps what earlier processes compiled; empty: nothing does.
func NewPipelines(g *GPU, folder string) (*Pipelines, error) {
	p := &Pipelines{g: g, folder: folder, modules: map[string]vk.ShaderModule{}, made: map[Variant]vk.Pipeline{}}
	return p, p.load()
}

// Get compiles v, unless that was done before.
func (p *Pipelines) Get(v Variant) (vk.Pipeline, error) {
	if made, ok := p.made[v]; ok {
		return made, nil
	}
	module, err := p.module(v.Shader)
	if err == nil {
		p.made[v], err = p.compile(v, module)
	}
	if err != nil {
		delete(p.made, v)
		return 0, fmt.Errorf("shader %s on %s: %w", v.Shader, p.g.Info.Name, err)
	}
	return p.made[v], nil
}

func (p *Pipelines) module(name string) (vk.ShaderModule, error) {
	if m, ok := p.modules[name]; ok {
		return m, nil
	}
	code, err := shaders.Code(name)
	if err != nil {
		return 0, err
	}
	defer Pinned(&code[0])()
	m, err := p.g.VK.CreateShaderModule(&vk.ShaderModuleCreateInfo{SType: vk.StructureTypeShaderModuleCreateInfo, CodeSize: uintptr(4 * len(code)), PCode: &code[0]})
	if err == nil {
		p.modules[name] = m
	}
	return m, err
}

// Shaders that multiply by cooperative matrices, whose subgroups may have another size.
const (
	MatricesShader       = "cooperative"
	ExpertMatricesShader = "cooperative_experts"
)

func (p *Pipelines) compile(v Variant, module vk.ShaderModule) (vk.Pipeline, error) {
	subgroup := p.g.Subgroup.Size
	if v.Shader == MatricesShader || v.Shader == ExpertMatricesShader {
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

// Close saves what was compiled and destroys it.
func (p *Pipelines) Close() {
	p.Save()
	for _, made := range p.made {
		p.g.VK.DestroyPipeline(made)
	}
	for _, m := range p.modules {
		p.g.VK.DestroyShaderModule(m)
	}
	p.g.VK.DestroyPipelineCache(p.cache)
}
