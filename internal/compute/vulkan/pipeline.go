package vulkan

import (
	"fmt"
	"unsafe"

	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/shaders"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/vk"
)

// variant is a shader with its specialisation: one pipeline.
type variant struct {
	shader string
	local  uint32          // constant 0: invocations of a workgroup
	spec   [maxSpec]uint32 // constants 2 and on
	specs  int             // of them in use
}

// maxSpec is how many specialisation constants a shader may have of its own.
const maxSpec = 12

// pipelines are compiled as they are asked for, and live until the device is closed.
type pipelines struct {
	g       *gpu
	cache   vk.PipelineCache
	folder  string // of the cache on disk; empty: none
	modules map[string]vk.ShaderModule
	made    map[variant]vk.Pipeline
	saved   int // pipelines that are in the cache on disk
}

func newPipelines(g *gpu, folder string) (*pipelines, error) {
	p := &pipelines{g: g, folder: folder, modules: map[string]vk.ShaderModule{}, made: map[variant]vk.Pipeline{}}
	return p, p.load()
}

// get compiles v, unless that was done before.
func (p *pipelines) get(v variant) (vk.Pipeline, error) {
	if made, ok := p.made[v]; ok {
		return made, nil
	}
	module, err := p.module(v.shader)
	if err == nil {
		p.made[v], err = p.compile(v, module)
	}
	if err != nil {
		delete(p.made, v)
		return 0, fmt.Errorf("shader %s on %s: %w", v.shader, p.g.info.Name, err)
	}
	return p.made[v], nil
}

func (p *pipelines) module(name string) (vk.ShaderModule, error) {
	if m, ok := p.modules[name]; ok {
		return m, nil
	}
	code, err := shaders.Code(name)
	if err != nil {
		return 0, err
	}
	defer pinned(&code[0])()
	m, err := p.g.vk.CreateShaderModule(&vk.ShaderModuleCreateInfo{SType: vk.StructureTypeShaderModuleCreateInfo, CodeSize: uintptr(4 * len(code)), PCode: &code[0]})
	if err == nil {
		p.modules[name] = m
	}
	return m, err
}

func (p *pipelines) compile(v variant, module vk.ShaderModule) (vk.Pipeline, error) {
	subgroup := p.g.subgroup.size
	if v.shader == matricesShader {
		subgroup = p.g.matrices.subgroup
	}
	constants := append([]uint32{v.local, uint32(subgroup)}, v.spec[:v.specs]...)
	entries := make([]vk.SpecializationMapEntry, len(constants))
	for i := range entries {
		entries[i] = vk.SpecializationMapEntry{ConstantID: uint32(i), Offset: uint32(4 * i), Size: 4}
	}
	spec := &vk.SpecializationInfo{MapEntryCount: uint32(len(entries)), PMapEntries: &entries[0], DataSize: uintptr(4 * len(constants)), PData: unsafe.Pointer(&constants[0])}
	size := &vk.PipelineShaderStageRequiredSubgroupSizeCreateInfo{SType: vk.StructureTypePipelineShaderStageRequiredSubgroupSize, RequiredSubgroupSize: uint32(subgroup)}
	name := vk.CString("main")
	defer pinned(&constants[0], &entries[0], spec, size, name)()
	info := &vk.ComputePipelineCreateInfo{
		SType: vk.StructureTypeComputePipelineCreateInfo, Layout: p.g.layout, BasePipelineIndex: -1,
		Stage: vk.PipelineShaderStageCreateInfo{
			SType: vk.StructureTypePipelineShaderStageCreateInfo, Stage: vk.StageCompute, Module: module, PName: name, PSpecializationInfo: spec,
		},
	}
	if p.g.subgroup.required {
		info.Stage.PNext = unsafe.Pointer(size)
	}
	if p.g.subgroup.full && int(v.local)%subgroup == 0 {
		info.Stage.Flags = vk.ShaderStageFullSubgroups
	}
	return p.g.vk.CreateComputePipeline(p.cache, info)
}

// close saves what was compiled and destroys it.
func (p *pipelines) close() {
	p.save()
	for _, made := range p.made {
		p.g.vk.DestroyPipeline(made)
	}
	for _, m := range p.modules {
		p.g.vk.DestroyShaderModule(m)
	}
	p.g.vk.DestroyPipelineCache(p.cache)
}
