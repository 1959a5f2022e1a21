package vk

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// structures returns all of structs.go.
func structures() []any {
	return []any{
		ApplicationInfo{},
		InstanceCreateInfo{},
		ValidationFeatures{},
		DebugUtilsMessengerCreateInfo{},
		DebugUtilsMessengerCallbackData{},
		LayerProperties{},
		ExtensionProperties{},
		PhysicalDeviceLimits{},
		PhysicalDeviceSparseProperties{},
		PhysicalDeviceProperties{},
		PhysicalDeviceProperties2{},
		PhysicalDeviceVulkan11Properties{},
		PhysicalDeviceDriverProperties{},
		PhysicalDeviceSubgroupSizeControlProperties{},
		PhysicalDevicePushDescriptorProperties{},
		PhysicalDeviceFeatures{},
		PhysicalDeviceFeatures2{},
		PhysicalDeviceVulkan11Features{},
		PhysicalDeviceVulkan12Features{},
		PhysicalDeviceSubgroupSizeControlFeatures{},
		PhysicalDeviceShaderIntegerDotProductFeatures{},
		PhysicalDeviceCooperativeMatrixFeatures{},
		CooperativeMatrixProperties{},
		PhysicalDeviceMaintenance4Features{},
		PhysicalDeviceCooperativeMatrix2Features{},
		PhysicalDeviceCooperativeMatrix2Properties{},
		CooperativeMatrixFlexibleDimensionsProperties{},
		MemoryType{},
		MemoryHeap{},
		PhysicalDeviceMemoryProperties{},
		PhysicalDeviceMemoryProperties2{},
		PhysicalDeviceMemoryBudgetProperties{},
		Extent3D{},
		QueueFamilyProperties{},
		DeviceQueueCreateInfo{},
		DeviceCreateInfo{},
		BufferCreateInfo{},
		MemoryRequirements{},
		MemoryAllocateInfo{},
		ShaderModuleCreateInfo{},
		SpecializationMapEntry{},
		SpecializationInfo{},
		PipelineShaderStageCreateInfo{},
		PipelineShaderStageRequiredSubgroupSizeCreateInfo{},
		ComputePipelineCreateInfo{},
		PipelineCacheCreateInfo{},
		DescriptorSetLayoutBinding{},
		DescriptorSetLayoutCreateInfo{},
		PushConstantRange{},
		PipelineLayoutCreateInfo{},
		DescriptorBufferInfo{},
		DescriptorPoolSize{},
		DescriptorPoolCreateInfo{},
		DescriptorSetAllocateInfo{},
		WriteDescriptorSet{},
		CommandPoolCreateInfo{},
		CommandBufferAllocateInfo{},
		CommandBufferBeginInfo{},
		MemoryBarrier{},
		BufferCopy{},
		SemaphoreTypeCreateInfo{},
		SemaphoreCreateInfo{},
		TimelineSemaphoreSubmitInfo{},
		SubmitInfo{},
		SemaphoreWaitInfo{},
		QueryPoolCreateInfo{},
		CalibratedTimestampInfo{},
	}
}

// parse parses the package's own files.
func parse(t *testing.T, pattern string) (*token.FileSet, []*ast.File) {
	t.Helper()
	fset := token.NewFileSet()
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) == 0 {
		t.Fatal("no files", err)
	}
	var files []*ast.File
	for _, n := range names {
		if strings.HasSuffix(n, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, n, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	return fset, files
}

// cName returns the structure's name in the registry.
func (r *registry) cName(goName string) string {
	for _, suffix := range []string{"", "KHR", "EXT", "NV"} {
		if typ := r.types["Vk"+goName+suffix]; typ != nil && typ.Category == "struct" && typ.Alias == "" {
			return typ.Name
		}
	}
	return "Vk" + goName
}

// older reports whether name belongs to an extension that is newer than the registry. Debian 12's is older than all of
// these. With a current vk.xml the test holds everything.
func (r *registry) older(name string) bool {
	for _, e := range []struct {
		command string // of the extension
		names   []string
	}{
		{"vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR", []string{"CooperativeMatrix", "_COOPERATIVE_MATRIX_", "VK_COMPONENT_TYPE_", "VK_SCOPE_"}},
		{"vkGetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV", []string{"CooperativeMatrix2", "CooperativeMatrixFlexible", "_COOPERATIVE_MATRIX_2_", "_COOPERATIVE_MATRIX_FLEXIBLE_"}},
	} {
		if _, ok := r.commands[e.command]; ok {
			continue
		}
		for _, part := range e.names {
			if strings.Contains(name, part) {
				return true
			}
		}
	}
	return false
}

// TestStructures: every structure has the registry's members, in its order, at its offsets.
func TestStructures(t *testing.T) {
	r := readRegistry(t)
	var names []string
	for _, s := range structures() {
		typ := reflect.TypeOf(s)
		names = append(names, typ.Name())
		if r.older(typ.Name()) {
			continue
		}
		fields, size, _, err := r.layout(r.cName(typ.Name()))
		if err != nil {
			t.Error(err)
			continue
		}
		if typ.Size() != size || typ.NumField() != len(fields) {
			t.Errorf("%s has %d bytes in %d members, want %d in %d", typ.Name(), typ.Size(), typ.NumField(), size, len(fields))
			continue
		}
		for i, want := range fields {
			have := typ.Field(i)
			if have.Name != strings.ToUpper(want.name[:1])+want.name[1:] || have.Offset != want.offset || have.Type.Size() != want.size {
				t.Errorf("%s: member %d is %s at %d with %d bytes, want %s at %d with %d", typ.Name(), i, have.Name, have.Offset, have.Type.Size(), want.name, want.offset, want.size)
			}
		}
	}
	_, files := parse(t, "structs.go")
	ast.Inspect(files[0], func(n ast.Node) bool {
		if spec, ok := n.(*ast.TypeSpec); ok {
			if _, ok := spec.Type.(*ast.StructType); ok && !slices.Contains(names, spec.Name.Name) {
				t.Errorf("%s is not among the structures of this test", spec.Name.Name)
			}
		}
		return true
	})
}

// TestConstants: every constant that carries a C name has that constant's value.
func TestConstants(t *testing.T) {
	r := readRegistry(t)
	fset, files := parse(t, "enums.go")
	_, more := parse(t, "structs.go")
	info := types.Info{Defs: map[*ast.Ident]types.Object{}}
	config := types.Config{Error: func(error) {}} // imports are not followed: no constant needs them
	_, _ = config.Check("vk", fset, append(files, more...), &info)
	checked := 0
	ast.Inspect(files[0], func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if spec.Comment == nil {
			t.Errorf("%s carries no C name", spec.Names[0].Name)
			return true
		}
		name := strings.TrimSpace(spec.Comment.Text())
		if r.older(name) {
			return true
		}
		want, ok := r.values[name]
		have, is := info.Defs[spec.Names[0]].(*types.Const)
		if !ok || !is {
			t.Errorf("%s: the registry has no %s", spec.Names[0].Name, name)
			return true
		}
		v, exact := constant.Int64Val(have.Val())
		if u, all := constant.Uint64Val(have.Val()); !exact && all {
			v = int64(u)
		}
		if v != want {
			t.Errorf("%s is %d, and %s is %d", spec.Names[0].Name, v, name, want)
		}
		checked++
		return true
	})
	if checked < 60 {
		t.Errorf("only %d constants were looked at", checked)
	}
}

// TestFunctions: every function of the tables is a command of the registry, and is called with as many arguments as it
// has.
func TestFunctions(t *testing.T) {
	r := readRegistry(t)
	called := map[string]bool{}
	prepared := 0 // arguments of the last append
	_, files := parse(t, "*.go")
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				if a, ok := n.Rhs[0].(*ast.CallExpr); ok && len(n.Rhs) == 1 && fmt.Sprint(a.Fun) == "append" {
					prepared = len(a.Args) - 1
				}
			case *ast.CallExpr:
				method, ok := n.Fun.(*ast.SelectorExpr)
				if !ok || method.Sel.Name != "call" && method.Sel.Name != "with" {
					return true
				}
				function, ok := method.X.(*ast.SelectorExpr)
				if !ok || function.Sel.Name == "getInstanceProcAddr" {
					return true
				}
				arguments := len(n.Args)
				if method.Sel.Name == "with" {
					arguments = prepared
				}
				name := "vk" + function.Sel.Name
				if called[name] = true; !r.older(name) && arguments != r.commands[name] {
					t.Errorf("%s is called with %d arguments, and has %d", name, arguments, r.commands[name])
				}
			}
			return true
		})
	}
	for _, table := range []any{Library{}.fn, Instance{}.fn, Device{}.fn} {
		typ := reflect.TypeOf(table)
		for i := range typ.NumField() {
			name := "vk" + typ.Field(i).Name
			if _, ok := r.commands[name]; !ok && !r.older(name) {
				t.Errorf("the registry has no command %s", name)
			}
			if !called[name] {
				t.Errorf("%s is never called", name)
			}
		}
	}
}
