# make test and make test-all install what tests need when root or in CI; see scripts/tools.sh.

.PHONY: build test test-all race fuzz soak lint shaders page generate generated dependencies vulncheck demo-model cross windows-check gpu-check cpu-check deploy-check agents-check release

build:
	CGO_ENABLED=0 go build -o powerinfer ./cmd/powerinfer

# The tests of less than five minutes on two cores. It ends with a line of what was left out.
test:
	@scripts/tools.sh test
	@scripts/test.sh

# All tests, as .ci/run does. Large matrices (types, families, places) are tried with one case of each kind; POWERINFER_EXHAUSTIVE=1 runs them whole, as
# .ci/night does.
test-all:
	@scripts/tools.sh test
	@POWERINFER_THOROUGH=1 scripts/test.sh

# A race run of the packages that share memory between goroutines, and of what passes between Go and the Vulkan driver. Kernels are single-threaded:
# of element types those that are divided among threads in a way of their own are enough. Tests that only compare one split's numbers with another's
# run the goroutines that TestTrace and TestCompanyOnGPU run. Of the engine those tests are run in which several goroutines meet.
race: export POWERINFER_THOROUGH = 1
race:
	CGO_ENABLED=1 go test -vet=off -timeout 30m -race -short ./internal/compute/cpu ./internal/compute/cpu/pool -skip \
		'^TestTune|^Test(MatrixUnit)?Conformance$$/.*/^(exact,_)?(F32|IQ|TQ|Q[12358]|Q4_1|Q6_K|MXFP4|NVFP4|BF16)|^Test(MatrixUnit)?Conformance$$/^(Experts|Predict)$$/^Q4_K|^Test(MatrixUnit)?Conformance$$/^Attention$$/^heads_of_(64_and|80|96|576)'
	CGO_ENABLED=1 go test -vet=off -timeout 30m -race -short ./internal/engine -run '^Test($(RACED))$$' -skip '^TestCompanyOnGPU$$/^(off|exact)'
	CGO_ENABLED=1 go test -vet=off -timeout 30m -race -short -run 'TestUpload|TestReplay|TestOverlap|TestHost|TestConformance/^Embed$$' ./internal/compute/vulkan

RACED := TwoHundredRequests|Gap|ForgottenStream|CancelWaiting|CancelInRecurrentStep|CloseWhileAwaiting|NeverFits|FailedStep|LostForGood|Together|EmbedLater|$(\
	)DraftModel|FurtherDrafts|PrefixReuse|Checkpoints|RecurrentCompany|SaveBesideRequests|Company|CompanyOnGPU|Watch|SetThreshold|Trace|WindowsFreePages

fuzz:
	@scripts/fuzz.sh $${FUZZTIME:-15s}

# Eight clients whose schemas all differ, who leave at random: the server's memory must not grow. Then four clients of a model larger than the memory
# that it may take: answers must be those without limit, within the limit. Every night, and by hand for 30 minutes:
# make soak SOAKTIME=30m. It needs Linux; see CONTRIBUTING.md.
soak:
	SOAKTIME=$${SOAKTIME:-10m} go test -tags soak -count 1 -timeout 3h -run TestSoak -v ./internal/server
	SOAKTIME=$${SOAKTIME:-10m} go test -count 1 -timeout 3h -run TestSoakOnDisk -v ./cmd/powerinfer

lint:
	@scripts/lint.sh

# Compute shaders: needs glslangValidator of Debian 12's glslang-tools, and a newer one (make shaders GLSLANG=…) for those whose
# extensions it does not know. The manifest says what the committed binaries were made from.
shaders:
	cd internal/compute/vulkan/shaders && GLSLANG=$(GLSLANG) go run ./compile

# The web page, from its sources in web; the result is committed. Needs Node 20 and npm.
page: web/node_modules
	cd web && npm run --silent build
	go run ./internal/server/page/pack

web/node_modules: web/package-lock.json
	cd web && npm ci
	touch $@

generate:
	go generate ./...

# Generated files are committed; this fails where they differ from what the generators write.
generated: generate page dependencies
	go -C gen test ./...
	git diff --exit-code --stat -- '*.s' '*_stub_*.go' internal/server/page/dist LICENSES.txt docs/dependencies.md

# What is not our own, in docs/dependencies.md, and the licences of what the program contains, in LICENSES.txt.
dependencies:
	go -C gen run ./dependencies

# Known vulnerabilities, from the databases of Go and npm; says so where they cannot be reached. Part of make lint.
vulncheck:
	@scripts/vulncheck.sh

demo-model:
	@test -d ../shared/demo-model || { echo "make demo-model needs the training data in ../shared/demo-model, which is not part of the repository"; exit 1; }
	go run ./cmd/powerinfer convert ../shared/demo-model/hf --outtype f16 --model-name "Tales ReLU" --outfile tales.gguf
	go run ./cmd/powerinfer prepare tales.gguf -o demo/tales-relu.gguf --predictor-type q8_0 --tokens 131072 \
		-f ../shared/demo-model/corpus/train-sample.txt --eval-file ../shared/demo-model/corpus/valid.txt
	rm tales.gguf

cross:
	@scripts/cross.sh

# Tests as Windows programs, under wine: docs/platforms.md. PACKAGES narrows it down. Minutes; make test-all has the short form in CI.
windows-check:
	@scripts/windows-check.sh $(PACKAGES)

# Tries the GPU: docs/gpu-check.md. ARGS go to it: make gpu-check ARGS="--device lavapipe --tiny".
gpu-check:
	@scripts/gpu-check.sh $(ARGS)

# Checks and times the processor's kernels: docs/cpu-check.md. GOOS and GOARCH choose another machine's bundle.
cpu-check:
	@scripts/cpu-check.sh $(ARGS)

# Holds the Helm chart, the systemd unit and the release's files to what reads them: deploy/ is a module of its own.
deploy-check:
	cd deploy && go vet ./... && go test ./...

# Coding agents against the server, with a scripted model: docs/clients.md. It takes minutes and a registry of npm; not part of CI.
agents-check:
	@mkdir -p .cache/agents
	cp internal/server/testdata/agents/package.json internal/server/testdata/agents/package-lock.json internal/server/testdata/agents/.npmrc .cache/agents
	cd .cache/agents && npm install --prefer-offline && node node_modules/@anthropic-ai/claude-code/install.cjs && node node_modules/opencode-ai/postinstall.mjs
	POWERINFER_AGENTS=$(CURDIR)/.cache/agents go test -tags agents -count 1 -timeout 45m -run TestAgents -v ./internal/server

# Archives, packages and checksums of what is checked out, in dist/.
release:
	@scripts/release.sh
