package main

import (
	"context"
	"fmt"

	"github.com/powerinfer-go/powerinfer/bench/checkup"
)

// The device's tests that a GPU can pass; the others are about lavapipe, or machines without a driver.
const (
	gpuTests = "^(TestConformance|TestArithmetic|TestTiles|TestHeads|TestPackedForms|TestOtherWays|TestHotNeurons|TestModels|TestDemoText|TestReplay|TestManyShapes|TestHost|" +
		"TestWrongParams|TestOverlap|TestSetsPass|TestUpload|TestAllocations|TestPipelineCache|TestReadAll|TestTraits|TestAddJoins|TestOpenings|TestFusions|TestTeams|TestElectedRows|TestKnownAttention)$"
	tinyTests = "^(TestReplay|TestReadAll|TestSetsPass)$"
)

// verbs runs the compiled tests on the GPU.
func verbs(ctx context.Context, c *check, w *checkup.Report) error {
	t := checkup.Tests{Path: c.tests, Pattern: gpuTests, Dir: c.out, Log: "verbs.log", Env: []string{fmt.Sprintf("POWERINFER_TEST_DEVICE=%d", c.info.Index), "POWERINFER_REQUIRE=vulkan"}}
	switch {
	case c.tiny:
		t.Pattern = tinyTests
	case c.quarter: // one case of each kind
		t.Env = append(t.Env, "POWERINFER_THOROUGH=1")
	default:
		t.Env = append(t.Env, "POWERINFER_EXHAUSTIVE=1")
	}
	return t.Run(ctx, w)
}
