package vulkan

import "github.com/powerinfer-go/powerinfer/internal/compute"

func (r *recorder) Attention(out, q compute.Tensor, c *compute.Cache, layer int, scale float32) {
	panic("vulkan: Attention")
}

func (r *recorder) Predict(s compute.Set, x, hidden, logits compute.Tensor, fc1, fc2 *compute.Matrix) {
	panic("vulkan: Predict")
}
func (r *recorder) SparseFFN(out, x compute.Tensor, s compute.Set, f compute.SparseWeights) {
	panic("vulkan: SparseFFN")
}
func (d *Device) Set(rows, n int) (compute.Set, error) { panic("vulkan: Set") }
