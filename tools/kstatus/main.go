// kstatus prints the status of each object as Flux and other tools compute it with the library of this name. It reads one object in
// JSON from each line, and writes one line of JSON for it: status and message.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// The maximum length of an object.
const longest = 4 << 20

type verdict struct {
	Status  string `json:"status"`
	Message string `json:"message"`
}

func judge(line []byte) (verdict, error) {
	var object unstructured.Unstructured
	// A plain decoder would decode generations as floating point numbers, which kstatus ignores.
	if err := object.UnmarshalJSON(line); err != nil {
		return verdict{}, err
	}
	result, err := status.Compute(&object)
	if err != nil {
		return verdict{}, err
	}
	return verdict{string(result.Status), result.Message}, nil
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, longest)
	out := json.NewEncoder(os.Stdout)
	for number := 1; lines.Scan(); number++ {
		result, err := judge(lines.Bytes())
		if err == nil {
			err = out.Encode(result)
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "line %d: %v\n", number, err)
			os.Exit(1)
		}
	}
	if err := lines.Err(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
