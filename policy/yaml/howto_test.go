package yaml_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/tandem-rpc/tandem/policy/yaml"
)

// The policies in the guides are valid, and the same in both languages.
func TestGuidesHavePolicies(t *testing.T) {
	block := regexp.MustCompile("(?s)```yaml\n(.*?)```")
	var texts [2][]string
	for i, path := range []string{"howto/routes.md", "zh/howto/routes.md"} {
		page, err := os.ReadFile(filepath.Join("..", "..", "docs", path))
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range block.FindAllSubmatch(page, -1) {
			if p, err := yaml.Parse(found[1]); err != nil || len(p.Routes) == 0 {
				t.Errorf("%s: %v in\n%s", path, err, found[1])
			}
			texts[i] = append(texts[i], string(found[1]))
		}
	}
	if len(texts[0]) < 5 || len(texts[0]) != len(texts[1]) {
		t.Fatalf("%d policies in English, %d in Chinese", len(texts[0]), len(texts[1]))
	}
	for i := range texts[0] {
		if texts[0][i] != texts[1][i] {
			t.Errorf("the Chinese page has\n%s\nin place of\n%s", texts[1][i], texts[0][i])
		}
	}
}
