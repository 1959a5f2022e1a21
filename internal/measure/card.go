package measure

import "fmt"

// ID says which card it is; where it changes, the card is measured anew.
type ID struct {
	Name     string `json:"name"`
	Driver   string `json:"driver"` // with its version
	UUID     string `json:"uuid"`
	Memory   int64  `json:"memory"`          // bytes
	Software bool   `json:"software"`        // it computes on the processor
	Spare    bool   `json:"spare,omitempty"` // it computes only where it is named, beside others that are cards or better
}

// Found is a card that the machine has, before it is measured.
type Found struct {
	ID
	Lacks string              // why it cannot be used; empty if it can
	Open  func() (GPU, error) // nil where it cannot
}

// GPU is what is measured of a card; the device that computes on it implements it.
type GPU interface {
	// ReadBandwidth is what its memory gives to a kernel that reads far more than its caches hold, bytes per second.
	ReadBandwidth() (float64, error)
	// TransferBandwidth is what the bus gives from RAM to the card and back, bytes per second.
	TransferBandwidth() (up, down float64, err error)
	// HandOff is the time from activations in RAM, through a kernel that does nothing, to a wait that has ended, in seconds.
	HandOff() (float64, error)
	// Launch is the time that the kernels of one layer take to start beyond what they read, in seconds.
	Launch() (float64, error)
	Close() error
}

// Card is what was measured of a card. All figures are 0 where Lacks is not empty.
type Card struct {
	ID
	Lacks    string  `json:"lacks,omitempty"` // why nothing was measured
	Read     float64 `json:"read"`            // bytes per second of its memory
	Upload   float64 `json:"upload"`          // bytes per second
	Download float64 `json:"download"`        // bytes per second
	HandOff  float64 `json:"hand_off"`        // seconds
	Launch   float64 `json:"launch"`          // seconds a layer
}

// Usable reports whether models may be placed on the card without being told to.
func (c *Card) Usable() bool { return c.Lacks == "" && !c.Software && !c.Spare }

// check reports figures that no card has.
func (c *Card) check() error {
	if c.Lacks != "" {
		return nil
	}
	for _, v := range []float64{c.Read, c.Upload, c.Download} {
		if !plausible(v) {
			return fmt.Errorf("card %q: %g bytes/s is no bandwidth", c.Name, v)
		}
	}
	if !(c.HandOff >= 0 && c.HandOff < 1) || !(c.Launch >= 0 && c.Launch < 1) {
		return fmt.Errorf("card %q: %g s to hand off and %g s to launch are no latencies", c.Name, c.HandOff, c.Launch)
	}
	return nil
}

// cardSteps is how many figures a card takes.
const cardSteps = 4

// take measures the card; what fails is said in Lacks.
func (c *Card) take(f *Found, step func()) {
	err := func() error {
		if f.Lacks != "" || f.Open == nil {
			c.Lacks = f.Lacks
			if c.Lacks == "" {
				c.Lacks = "it cannot be opened"
			}
			return nil
		}
		g, err := f.Open()
		if err != nil {
			return err
		}
		defer g.Close()
		if c.Read, err = g.ReadBandwidth(); err != nil {
			return err
		}
		step()
		if c.Upload, c.Download, err = g.TransferBandwidth(); err != nil {
			return err
		}
		step()
		if c.HandOff, err = g.HandOff(); err != nil {
			return err
		}
		step()
		if c.Launch, err = g.Launch(); err != nil {
			return err
		}
		step()
		return c.check()
	}()
	if err != nil {
		*c = Card{ID: c.ID, Lacks: err.Error()}
	}
}
