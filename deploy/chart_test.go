// Package deploy_test checks the Helm chart against the published types of its output, and the other files with the
// programs that read them. It is a separate module, so that Helm and Kubernetes are not dependencies of the program.
package deploy_test

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	inference "sigs.k8s.io/gateway-api-inference-extension/api/v1"
	"sigs.k8s.io/yaml"
)

const release = "demo"

// kinds are the types that the chart may render, by apiVersion and kind.
var kinds = map[string]func() any{
	"v1/Service":                                   func() any { return &core.Service{} },
	"v1/ServiceAccount":                            func() any { return &core.ServiceAccount{} },
	"v1/PersistentVolumeClaim":                     func() any { return &core.PersistentVolumeClaim{} },
	"apps/v1/Deployment":                           func() any { return &apps.Deployment{} },
	"batch/v1/Job":                                 func() any { return &batch.Job{} },
	"autoscaling/v2/HorizontalPodAutoscaler":       func() any { return &autoscaling.HorizontalPodAutoscaler{} },
	"policy/v1/PodDisruptionBudget":                func() any { return &policy.PodDisruptionBudget{} },
	"inference.networking.k8s.io/v1/InferencePool": func() any { return &inference.InferencePool{} },
	"monitoring.coreos.com/v1/PodMonitor":          func() any { return &monitoring.PodMonitor{} },
}

func load(t *testing.T) *chart.Chart {
	t.Helper()
	c, err := loader.Load("helm/powerinfer")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// render returns what the chart makes of values, a YAML text, decoded strictly: no field that the type lacks, no field
// twice.
func render(t *testing.T, c *chart.Chart, values string) (objects []any, err error) {
	t.Helper()
	var v map[string]any
	if err := yaml.Unmarshal([]byte(values), &v); err != nil {
		t.Fatal(err)
	}
	all, err := util.ToRenderValues(c, v, common.ReleaseOptions{Name: release, Namespace: "models", IsInstall: true}, common.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(c, all)
	if err != nil {
		return nil, err
	}
	for name, text := range files {
		if path.Ext(name) != ".yaml" {
			continue
		}
		for doc := range strings.SplitSeq(text, "\n---\n") {
			if strings.TrimSpace(doc) == "" {
				continue
			}
			o, err := decode([]byte(doc))
			if err != nil {
				t.Errorf("%s: %v\n%s", name, err, doc)
				continue
			}
			objects = append(objects, o)
		}
	}
	return objects, nil
}

func decode(doc []byte) (any, error) {
	var head struct{ APIVersion, Kind string }
	if err := yaml.Unmarshal(doc, &head); err != nil {
		return nil, err
	}
	of := kinds[head.APIVersion+"/"+head.Kind]
	if of == nil {
		return nil, fmt.Errorf("no type is known for %s %s", head.APIVersion, head.Kind)
	}
	o := of()
	return o, yaml.UnmarshalStrict(doc, o)
}

// only returns the single object of type T.
func only[T any](t *testing.T, objects []any) T {
	t.Helper()
	var found []T
	for _, o := range objects {
		if x, ok := o.(T); ok {
			found = append(found, x)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d objects are a %s", len(found), reflect.TypeFor[T]())
	}
	return found[0]
}

func has[T any](objects []any) bool {
	return slices.ContainsFunc(objects, func(o any) bool { _, ok := o.(T); return ok })
}

// cases are ways to use the chart; docs/kubernetes.md has most of them.
var cases = map[string]string{
	"usual":  ``,
	"volume": `{model: {file: a/b.gguf, volume: {persistentVolumeClaim: {claimName: models}}}}`,
	"folder": `{model: {folder: ".", volume: {persistentVolumeClaim: {claimName: models}}}}`,
	"pull":   `{model: {pull: {repository: "user/repo:Q4_K_M", endpoint: "https://hub.example", tokenSecret: {name: hub}}, claim: {create: true}}}`,
	"many": `{server: {replicas: 3, apiKeySecret: {name: keys}, args: [--temp, "0.5"], env: [{name: LLAMA_ARG_THREADS, value: "4"}]},
		autoscaling: {enabled: true}, podMonitor: {create: true, labels: {a: b}}, topologySpreadConstraints: [{maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: ScheduleAnyway}],
		inferenceExtension: {pool: {create: true, endpointPicker: {name: picker}}}}`,
	"gpu": `{gpu: {enabled: true, runtimeClassName: nvidia, vramBudget: "20"}, nodeSelector: {a: b}, tolerations: [{operator: Exists}], priorityClassName: high, imagePullSecrets: [{name: x}]}`,
	"batch": `{server: {enabled: false}, batch: {enabled: true, shards: 5, parallelism: 2, volume: {persistentVolumeClaim: {claimName: prompts}}},
		model: {pull: {repository: user/repo}}}`,
}

// Whatever the chart is asked for, it renders objects that their published types hold whole, of names and labels that
// belong together.
func TestRendered(t *testing.T) {
	c := load(t)
	for name, values := range cases {
		t.Run(name, func(t *testing.T) {
			objects, err := render(t, c, values)
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range objects {
				pod, selector := podOf(o)
				if pod == nil {
					continue
				}
				checkPod(t, &pod.Spec)
				for k, v := range selector {
					if pod.Labels[k] != v {
						t.Errorf("pods lack the label %s=%s that they are selected by", k, v)
					}
				}
				for _, other := range objects {
					if s, ok := other.(*core.Service); ok {
						checkSelected(t, "the service", s.Spec.Selector, pod)
						checkPort(t, s.Spec.Ports[0].TargetPort.StrVal, pod)
					}
				}
			}
		})
	}
}

func podOf(o any) (pod *core.PodTemplateSpec, selector map[string]string) {
	switch o := o.(type) {
	case *apps.Deployment:
		return &o.Spec.Template, o.Spec.Selector.MatchLabels
	case *batch.Job:
		return &o.Spec.Template, nil
	}
	return nil, nil
}

func checkSelected(t *testing.T, who string, selector map[string]string, pod *core.PodTemplateSpec) {
	t.Helper()
	for k, v := range selector {
		if pod.Labels[k] != v {
			t.Errorf("%s selects %s=%s, and pods have %q", who, k, v, pod.Labels[k])
		}
	}
}

func checkPort(t *testing.T, name string, pod *core.PodTemplateSpec) {
	t.Helper()
	for _, p := range pod.Spec.Containers[0].Ports {
		if p.Name == name {
			return
		}
	}
	t.Errorf("no port is named %q", name)
}

// checkPod checks a pod against the restricted Pod Security Standard, and its mounts against its volumes.
func checkPod(t *testing.T, s *core.PodSpec) {
	t.Helper()
	if p := s.SecurityContext; p == nil || p.RunAsNonRoot == nil || !*p.RunAsNonRoot || p.SeccompProfile == nil || p.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault {
		t.Error("the pod is not restricted")
	}
	volumes := map[string]bool{}
	for _, v := range s.Volumes {
		if volumes[v.Name] || v.HostPath != nil {
			t.Errorf("volume %s is there twice, or the node's", v.Name)
		}
		volumes[v.Name] = true
	}
	for _, c := range slices.Concat(s.InitContainers, s.Containers) {
		p := c.SecurityContext
		if p == nil || p.AllowPrivilegeEscalation == nil || *p.AllowPrivilegeEscalation || p.ReadOnlyRootFilesystem == nil || !*p.ReadOnlyRootFilesystem ||
			p.Capabilities == nil || !slices.Contains(p.Capabilities.Drop, "ALL") {
			t.Errorf("container %s is not restricted", c.Name)
		}
		if c.Resources.Limits.Memory().IsZero() || c.Resources.Requests.Cpu().IsZero() {
			t.Errorf("container %s has no limit of memory or asks for no processor", c.Name)
		}
		for _, m := range c.VolumeMounts {
			if !volumes[m.Name] {
				t.Errorf("container %s mounts %s, which is no volume", c.Name, m.Name)
			}
		}
		if c.Command != nil {
			t.Errorf("container %s has a command of its own: the image's is powerinfer", c.Name)
		}
		seen := map[string]bool{}
		for _, e := range c.Env {
			if seen[e.Name] {
				t.Errorf("container %s has %s twice", c.Name, e.Name)
			}
			seen[e.Name] = true
		}
	}
}

// A pod gets time to load and to end; what it is asked at is its port.
func TestProbes(t *testing.T) {
	objects, err := render(t, load(t), `{server: {port: 9000, startupSeconds: 61, drainSeconds: 7}}`)
	if err != nil {
		t.Fatal(err)
	}
	pod := only[*apps.Deployment](t, objects).Spec.Template.Spec
	c := pod.Containers[0]
	for name, p := range map[string]*core.Probe{"startup": c.StartupProbe, "readiness": c.ReadinessProbe, "liveness": c.LivenessProbe} {
		if p == nil || p.HTTPGet == nil || p.HTTPGet.Path != "/health" || p.HTTPGet.Port.StrVal != c.Ports[0].Name {
			t.Errorf("%s is no GET of /health at the server's port", name)
		}
	}
	if s := c.StartupProbe; s.PeriodSeconds*s.FailureThreshold < 61 {
		t.Errorf("a pod has %d × %d s to start, not 61", s.PeriodSeconds, s.FailureThreshold)
	}
	if c.Ports[0].ContainerPort != 9000 || env(c, "LLAMA_ARG_PORT") != "9000" {
		t.Error("the port is not the one asked for")
	}
	const grace = 30 // --grace of powerinfer serve, in seconds
	if sleep := c.Lifecycle.PreStop.Sleep.Seconds; sleep != 7 || *pod.TerminationGracePeriodSeconds < sleep+grace {
		t.Errorf("%d s to end, of which %d are waited", *pod.TerminationGracePeriodSeconds, sleep)
	}
}

func env(c core.Container, name string) string {
	for _, e := range c.Env {
		if e.Name == name {
			return e.Value
		}
	}
	return ""
}

// TestModel: each way of giving a model reaches the server, and models are pulled beforehand, to the server's folder.
func TestModel(t *testing.T) {
	c := load(t)
	server := func(values string) core.PodSpec {
		objects, err := render(t, c, values)
		if err != nil {
			t.Fatal(err)
		}
		return only[*apps.Deployment](t, objects).Spec.Template.Spec
	}
	if pod := server(``); env(pod.Containers[0], "LLAMA_ARG_MODEL") != "" || pod.InitContainers != nil || env(pod.Containers[0], "LLAMA_ARG_DEVICE") != "none" {
		t.Error("without a model the embedded one is served, on the processor")
	}
	if pod := server(cases["volume"]); env(pod.Containers[0], "LLAMA_ARG_MODEL") != "/models/a/b.gguf" {
		t.Errorf("the model is %q", env(pod.Containers[0], "LLAMA_ARG_MODEL"))
	}
	pod := server(cases["pull"])
	pull, serve := pod.InitContainers[0], pod.Containers[0]
	if !slices.Equal(pull.Args, []string{"pull", "user/repo:Q4_K_M"}) || env(serve, "LLAMA_ARG_HF_REPO") != "user/repo:Q4_K_M" || env(serve, "HF_HUB_OFFLINE") != "1" {
		t.Errorf("%q is pulled and %q served", pull.Args, env(serve, "LLAMA_ARG_HF_REPO"))
	}
	if env(pull, "HF_HUB_CACHE") == "" || env(pull, "HF_HUB_CACHE") != env(serve, "HF_HUB_CACHE") {
		t.Error("a model is not pulled to where the server looks")
	}
	if serve.Image != pull.Image {
		t.Error("two images")
	}
	gpu := server(cases["gpu"])
	if q := gpu.Containers[0].Resources.Limits["nvidia.com/gpu"]; q.Value() != 1 || !strings.HasSuffix(gpu.Containers[0].Image, "-vulkan") || env(gpu.Containers[0], "LLAMA_ARG_DEVICE") != "" {
		t.Error("a GPU is a resource, and the image has its driver's loader")
	}
}

// The autoscaler asks for the metrics by the names that values have, and the deployment leaves the number of pods to
// it.
func TestAutoscaling(t *testing.T) {
	objects, err := render(t, load(t), cases["many"])
	if err != nil {
		t.Fatal(err)
	}
	d, h := only[*apps.Deployment](t, objects), only[*autoscaling.HorizontalPodAutoscaler](t, objects)
	if d.Spec.Replicas != nil || h.Spec.ScaleTargetRef.Name != d.Name {
		t.Error("two decide on the number of pods, or none")
	}
	want := map[string]int64{"powerinfer_requests_waiting": 2000, "powerinfer_kv_cache_usage_ratio": 800} // in thousandths
	for _, m := range h.Spec.Metrics {
		if got := m.Pods.Target.AverageValue.MilliValue(); got != want[m.Pods.Metric.Name] {
			t.Errorf("%s: %d thousandths, not %d", m.Pods.Metric.Name, got, want[m.Pods.Metric.Name])
		}
		delete(want, m.Pods.Metric.Name)
	}
	if len(want) > 0 {
		t.Errorf("nobody asks for %v", want)
	}
	b := only[*policy.PodDisruptionBudget](t, objects)
	checkSelected(t, "the budget", b.Spec.Selector.MatchLabels, &d.Spec.Template)
	if objects, _ := render(t, load(t), ``); has[*policy.PodDisruptionBudget](objects) {
		t.Error("one pod that may not go keeps a node from being drained")
	}
}

// TestInferenceExtension: the endpoint picker finds pods by the pool's selector, and their metrics by the label of the
// engine in its configuration.
func TestInferenceExtension(t *testing.T) {
	objects, err := render(t, load(t), cases["many"])
	if err != nil {
		t.Fatal(err)
	}
	d, pool := only[*apps.Deployment](t, objects), only[*inference.InferencePool](t, objects)
	for k, v := range pool.Spec.Selector.MatchLabels {
		if d.Spec.Template.Labels[string(k)] != string(v) {
			t.Errorf("the pool selects %s=%s", k, v)
		}
	}
	if len(pool.Spec.TargetPorts) != 1 || int32(pool.Spec.TargetPorts[0].Number) != d.Spec.Template.Spec.Containers[0].Ports[0].ContainerPort {
		t.Error("the pool's port is not the pods'")
	}
	monitor := only[*monitoring.PodMonitor](t, objects)
	checkSelected(t, "the monitor", monitor.Spec.Selector.MatchLabels, &d.Spec.Template)
	engine := engineConfig(t)
	for _, label := range []string{"llm-d.ai/engine-type", "inference.networking.k8s.io/engine-type"} {
		if got := d.Spec.Template.Labels[label]; got != engine["name"] {
			t.Errorf("pods are of engine %q, and %q is configured", got, engine["name"])
		}
	}
	metrics := load(t).Values["metrics"].(map[string]any)
	for key, value := range map[string]string{"queuedRequestsSpec": "requestsWaiting", "runningRequestsSpec": "requestsRunning", "kvUsageSpec": "kvCacheUsage"} {
		if engine[key] != metrics[value] {
			t.Errorf("the endpoint picker reads %s as %s; values.yaml says %s", key, engine[key], metrics[value])
		}
	}
}

// engineConfig returns the engine that endpoint-picker-values.yaml has the endpoint picker know.
func engineConfig(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("kubernetes/endpoint-picker-values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var values struct {
		Router struct {
			EPP struct {
				PluginsConfigFile   string            `json:"pluginsConfigFile"`
				PluginsCustomConfig map[string]string `json:"pluginsCustomConfig"`
			} `json:"epp"`
		} `json:"router"`
	}
	if err := yaml.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	epp := values.Router.EPP
	var config struct {
		Plugins []struct {
			Type       string `json:"type"`
			Parameters struct {
				EngineConfigs []map[string]string `json:"engineConfigs"`
			} `json:"parameters"`
		} `json:"plugins"`
	}
	if err := yaml.Unmarshal([]byte(epp.PluginsCustomConfig[epp.PluginsConfigFile]), &config); err != nil {
		t.Fatal(err)
	}
	for _, p := range config.Plugins {
		if p.Type == "core-metrics-extractor" && len(p.Parameters.EngineConfigs) == 1 {
			return p.Parameters.EngineConfigs[0]
		}
	}
	t.Fatal("the endpoint picker is told of no engine")
	return nil
}

// Each pod of the Job answers its share: the index is the shard, and all shards are somebody's.
func TestBatch(t *testing.T) {
	objects, err := render(t, load(t), cases["batch"])
	if err != nil {
		t.Fatal(err)
	}
	if has[*apps.Deployment](objects) || has[*core.Service](objects) {
		t.Error("there is a server")
	}
	j := only[*batch.Job](t, objects)
	if *j.Spec.CompletionMode != batch.IndexedCompletion || *j.Spec.Completions != 5 || *j.Spec.Parallelism != 2 {
		t.Error("not five shards, two at a time")
	}
	args := strings.Join(j.Spec.Template.Spec.Containers[0].Args, " ")
	for _, want := range []string{"--shard=$(JOB_COMPLETION_INDEX)/5", "--output=/data/answers-$(JOB_COMPLETION_INDEX).jsonl", "--file=/data/prompts.jsonl"} {
		if !strings.Contains(args, want) {
			t.Errorf("no %s in %s", want, args)
		}
	}
}

// What contradicts itself is refused when it is rendered, with what to do; what values do not have is refused by the
// schema.
func TestRefused(t *testing.T) {
	c := load(t)
	for values, want := range map[string]string{
		`{model: {file: a.gguf}}`: "model.file needs the volume",
		`{model: {file: a.gguf, pull: {repository: u/r}, claim: {create: true}}}`: "both name a model",
		`{model: {folder: a}}`:                                                                        "model.folder needs the volume",
		`{model: {folder: ../etc, claim: {create: true}}}`:                                            "/model/folder",
		`{model: {folder: a, file: b.gguf, claim: {create: true}}}`:                                   "leave model.file",
		`{model: {folder: a, claim: {create: true}}, batch: {enabled: true, volume: {emptyDir: {}}}}`: "a batch runs one model",
		`{model: {volume: {emptyDir: {}}, claim: {create: true}}}`:                                    "both give a volume",
		`{batch: {enabled: true}}`:                                                                    "batch.volume is missing",
		`{inferenceExtension: {pool: {create: true}}}`:                                                "endpointPicker.name is missing",
		`{server: {paralel: 3}}`:                                                                      "paralel",
		`{replicaCount: 3}`:                                                                           "replicaCount",
		`{server: {parallel: "3"}}`:                                                                   "/server/parallel",
		`{gpu: {count: 0}}`:                                                                           "/gpu/count",
		`{model: {pull: {repository: "../etc"}}}`:                                                     "/model/pull/repository",
	} {
		if _, err := render(t, c, values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v says nothing of %q", values, err, want)
		}
	}
}

// TestVariables: the program's commands read the variables that the chart and the systemd unit set, as its sources
// show.
func TestVariables(t *testing.T) {
	known := knownVariables(t)
	named := regexp.MustCompile(`LLAMA_[A-Z_]+`)
	var texts [][]byte
	for _, file := range []string{"../Dockerfile", "systemd/powerinfer.env", "systemd/cpu-only.conf", "helm/powerinfer/templates/_helpers.tpl", "helm/powerinfer/templates/deployment.yaml"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, text)
	}
	found := named.FindAllString(string(bytes.Join(texts, []byte("\n"))), -1)
	if len(found) == 0 {
		t.Error("nothing is set")
	}
	for _, v := range found {
		if !known[v] {
			t.Errorf("no flag is read from %s", v)
		}
	}
}

// knownVariables returns the variables of the program's flags.
func knownVariables(t *testing.T) map[string]bool {
	t.Helper()
	env, variable, word := regexp.MustCompile(`[Ee]nv\(([^)]*)\)`), regexp.MustCompile(`[Vv]ariable\("(\w+)"\)`), regexp.MustCompile(`"(\w+)"`)
	known := map[string]bool{}
	err := filepath.WalkDir("../cmd/powerinfer", func(name string, _ os.DirEntry, err error) error {
		if err != nil || path.Ext(name) != ".go" {
			return err
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for _, m := range env.FindAllStringSubmatch(string(text), -1) {
			for _, w := range word.FindAllStringSubmatch(m[1], -1) {
				known["LLAMA_ARG_"+w[1]] = true
			}
		}
		for _, m := range variable.FindAllStringSubmatch(string(text), -1) {
			known[m[1]] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return known
}
