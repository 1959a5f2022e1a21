// What every shader begins with: extensions, the workgroup's shape, sums over a workgroup.
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int16 : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_ballot : require
#extension GL_KHR_shader_subgroup_shuffle : require

layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;

layout(constant_id = 1) const uint SUBGROUP = 32; // invocations of a subgroup

shared float group_[64]; // one number for each subgroup: workgroups have at most 256 invocations, subgroups at least 4

// groupSum is the sum of v over the workgroup, in every invocation; all of them call it.
float groupSum(float v) {
	v = subgroupAdd(v);
	if (gl_NumSubgroups > 1) {
		if (subgroupElect()) group_[gl_SubgroupID] = v;
		barrier();
		v = 0.0;
		for (uint i = 0; i < gl_NumSubgroups; i++) v += group_[i];
		barrier();
	}
	return v;
}

// groupMax is the largest v of the workgroup, in every invocation; all of them call it.
float groupMax(float v) {
	v = subgroupMax(v);
	if (gl_NumSubgroups > 1) {
		if (subgroupElect()) group_[gl_SubgroupID] = v;
		barrier();
		for (uint i = 0; i < gl_NumSubgroups; i++) v = max(v, group_[i]);
		barrier();
	}
	return v;
}

// first and stride are where an invocation begins and how far it goes in a loop over elements of a whole dispatch.
uint first() { return gl_GlobalInvocationID.x; }
uint stride() { return gl_NumWorkGroups.x * gl_WorkGroupSize.x; }
