package measure

import "testing"

// TestProducts: two possible figures of cores, and a step for each.
func TestProducts(t *testing.T) {
	m, taken := Machine{Cores: 1}, 0
	if err := m.measureProducts(func() { taken++ }); err != nil {
		t.Fatal(err)
	}
	if !plausible(m.Products) || !plausible(m.Packs) || taken != 2 {
		t.Errorf("%g multiplications and %g packed bytes a second after %d steps", m.Products, m.Packs, taken)
	}
}
