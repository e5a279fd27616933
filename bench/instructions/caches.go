package instructions

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Caches are a processor's caches of data as callgrind is told them: bytes, ways and
// bytes of a line.
type Caches struct {
	First  string `json:"first"`
	Second string `json:"second"` // callgrind's last
}

// sysCaches is where Linux says what caches there are.
const sysCaches = "/sys/devices/system/cpu/cpu0/cache"

// cachesOf reads them; of those that are not to be found it takes usual sizes.
func cachesOf(dir string) Caches {
	c := Caches{First: "32768,8,64", Second: "1048576,16,64"}
	indexes, _ := filepath.Glob(filepath.Join(dir, "index*")) // the pattern is good
	for _, index := range indexes {
		described, err := describe(index)
		if err != nil {
			continue
		}
		switch level := said(index, "level"); {
		case level == "1" && said(index, "type") == "Data":
			c.First = described
		case level == "2":
			c.Second = described
		}
	}
	return c
}

// describe puts a cache into callgrind's words.
func describe(index string) (string, error) {
	kib, err := strconv.Atoi(strings.TrimSuffix(said(index, "size"), "K"))
	if err != nil {
		return "", fmt.Errorf("instructions: size of %s: %w", index, err)
	}
	ways, line := said(index, "ways_of_associativity"), said(index, "coherency_line_size")
	if ways == "" || line == "" {
		return "", fmt.Errorf("instructions: %s says neither ways nor lines", index)
	}
	return fmt.Sprintf("%d,%s,%s", kib<<10, ways, line), nil
}

// said is what Linux says about one; "" if nothing.
func said(index, what string) string {
	b, err := os.ReadFile(filepath.Join(index, what))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
