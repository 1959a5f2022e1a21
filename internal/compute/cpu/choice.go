package cpu

import (
	"fmt"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/kernel"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Choice is the kernel that measuring chose for weights of one type with rows of about equal length.
type Choice struct {
	Type   quant.Type
	Order  kernel.Order  // order of rows of single tokens; scattered rows may have any length
	Cols   int           // elements of a row of the first of the weights
	Kernel string        // the chosen one
	Usual  string        // the one that is taken without measuring, and where no other is clearly faster
	Why    string        // in a few words
	Speeds []KernelSpeed // all kernels there are, each in its best round
	Rounds int           // each was measured in
	Busy   bool          // times were so uneven that other programs must have been busy
	Took   time.Duration // for the choice
}

// KernelSpeed is a kernel's speed in bytes of weights a second, with all threads.
type KernelSpeed struct {
	Kernel string
	Speed  float64
}

// Speed returns the speed of the kernel of that name; 0: it was not measured.
func (c *Choice) Speed(kernel string) float64 {
	for _, s := range c.Speeds {
		if s.Kernel == kernel {
			return s.Speed
		}
	}
	return 0
}

// Scattered reports whether the kernel is for rows chosen by index.
func (c *Choice) Scattered() bool { return c.Order == kernel.Scattered }

// Mapped reports whether the kernel is for rows as the file has them.
func (c *Choice) Mapped() bool { return c.Order == kernel.Mapped }

func (c *Choice) String() string {
	return fmt.Sprintf("kernel of %s, %s of %d elements: %s, %s (%d rounds, %.1f ms)",
		c.Type, c.Order, c.Cols, c.Kernel, c.Why, c.Rounds, float64(c.Took.Microseconds())/1e3)
}

// duels are rounds in pairs, of the usual kernel and a rival that was faster than it before.
type duels struct{ won, lost int } // by the rival

// ahead returns how many more duels the rival won than it lost.
func (d duels) ahead() int { return d.won - d.lost }

// decide chooses between the usual kernel and a rival, and says why. The rival is the usual kernel if no other was
// faster. Speeds must be set.
func (c *Choice) decide(rival string, fought duels) {
	gain := c.Speed(rival) / c.Speed(c.Usual)
	c.Kernel = c.Usual
	switch {
	case gain <= 1: // a rival's lead may not outlast the duels
		c.Why = "usual, and the fastest"
	case gain < tuneGain:
		c.Why = fmt.Sprintf("usual; %s gains less than %.0f %%", rival, 100*(tuneGain-1))
	case fought.ahead() <= 0:
		c.Why = fmt.Sprintf("usual; %s was faster in its best round, but lost %d of %d duels", rival, fought.lost, fought.won+fought.lost)
	default:
		c.Kernel = rival
		c.Why = fmt.Sprintf("%.2f times as fast as %s, the usual one", gain, c.Usual)
	}
	if c.Busy {
		c.Why += "; other programs were busy"
	}
}
