// argocd-health prints the health of each object by Argo CD's own code, with the health checks of a file or a folder:
//
//	argocd-health resource_customizations < objects
//	argocd-health argocd-cm.yaml < objects
//
// It reads one object in JSON from each line, and writes one line of JSON for it: status and message.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/argoproj/argo-cd/gitops-engine/pkg/health"
	"github.com/argoproj/argo-cd/v3/pkg/apis/application/v1alpha1"
	"github.com/argoproj/argo-cd/v3/util/lua"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const (
	// The maximum length of an object.
	longest = 4 << 20
	// The maximum of runs of a check that times out.
	tries = 30
	// The prefix of a key in the ConfigMap argocd-cm, before the group and the kind.
	prefix = "resource.customizations.health."
)

// The checks of a folder in the form of contributions to Argo CD: group/kind/health.lua.
func ofFolder(folder string) (lua.ResourceHealthOverrides, error) {
	checks := lua.ResourceHealthOverrides{}
	files, err := filepath.Glob(filepath.Join(folder, "*", "*", "health.lua"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		script, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		kind := filepath.Dir(file)
		name := filepath.Base(filepath.Dir(kind)) + "/" + filepath.Base(kind)
		checks[name] = v1alpha1.ResourceOverride{HealthLua: string(script)}
	}
	return checks, nil
}

// The checks of the ConfigMap argocd-cm.
func ofConfigMap(file string) (lua.ResourceHealthOverrides, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var settings corev1.ConfigMap
	if err := yaml.UnmarshalStrict(text, &settings); err != nil {
		return nil, err
	}
	checks := lua.ResourceHealthOverrides{}
	for key, script := range settings.Data {
		if name, found := strings.CutPrefix(key, prefix); found {
			checks[strings.Replace(name, "_", "/", 1)] = v1alpha1.ResourceOverride{HealthLua: script}
		}
	}
	return checks, nil
}

func checksOf(path string) (lua.ResourceHealthOverrides, error) {
	about, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	checksOf := ofConfigMap
	if about.IsDir() {
		checksOf = ofFolder
	}
	checks, err := checksOf(path)
	if err == nil && len(checks) == 0 {
		err = fmt.Errorf("%s has no health check", path)
	}
	return checks, err
}

func judge(line []byte, checks lua.ResourceHealthOverrides) (*health.HealthStatus, error) {
	var object unstructured.Unstructured
	if err := object.UnmarshalJSON(line); err != nil {
		return nil, err
	}
	verdict, err := health.GetResourceHealth(&object, checks)
	// Argo CD gives a check one second of wall-clock time, which may be too little on a busy machine.
	for try := 1; try < tries && err != nil && strings.Contains(err.Error(), "deadline exceeded"); try++ {
		verdict, err = health.GetResourceHealth(&object, checks)
	}
	if err == nil && verdict == nil {
		err = fmt.Errorf("nothing judges a %s", object.GroupVersionKind())
	}
	return verdict, err
}

func run() error {
	if len(os.Args) != 2 {
		return fmt.Errorf("usage: %s FOLDER|CONFIGMAP < objects", os.Args[0])
	}
	checks, err := checksOf(os.Args[1])
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, longest)
	out := json.NewEncoder(os.Stdout)
	for number := 1; lines.Scan(); number++ {
		verdict, err := judge(lines.Bytes(), checks)
		if err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
		if err := out.Encode(map[string]string{"status": string(verdict.Status), "message": verdict.Message}); err != nil {
			return err
		}
	}
	return lines.Err()
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
