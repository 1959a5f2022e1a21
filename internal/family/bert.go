package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// newBERT binds BERT, RoBERTa, XLM-RoBERTa, CamemBERT and DistilBERT: the encoder with learned positions, GELU, and
// biases everywhere.
func newBERT(k *nn.Keys, b *nn.Binder) Program {
	return newEncoder(k, b, encoderSpec{
		act: compute.GELU, positions: nn.Required,
		qkvBias: nn.Required, outBias: nn.Required, upBias: nn.Required, downBias: nn.Required,
	})
}
