// The step's runs: for each row how many rows the run has that begins there, 0 where none does, and its sequence's slot. recurrent.go writes them. RUNS
// is their binding.

layout(set = 0, binding = RUNS, std430) readonly buffer Runs { uvec2 runs[]; };

const uint FRESH = 1u << 31; // in the slot: the sequence begins, with a state of zeros
