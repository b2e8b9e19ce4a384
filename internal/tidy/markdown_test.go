package tidy_test

import (
	"fmt"
	"path"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

// linkPattern matches inline links and images: [text](target) and ![alt](target).
var linkPattern = regexp.MustCompile(`\]\(([^()\s]+)\)`)

func TestMarkdown(t *testing.T) { report(t, checkMarkdown(loadTree(t))) }

// checkMarkdown wants one first-level heading per document and relative links that
// lead to a file, a folder or a heading that exists.
func checkMarkdown(files tree) []finding {
	var found []finding
	for _, name := range files.names(".md") {
		prose := proseLines(string(files[name]))
		titles := 0
		for _, line := range prose {
			if strings.HasPrefix(line, "# ") {
				titles++
			}
		}
		if titles != 1 {
			text := fmt.Sprintf("%d first-level headings, want one", titles)
			found = append(found, finding{name, 0, text})
		}
		for i, line := range prose {
			for _, m := range linkPattern.FindAllStringSubmatch(line, -1) {
				if why := brokenLink(files, name, m[1]); why != "" {
					found = append(found, finding{name, i + 1, "link " + m[1] + ": " + why})
				}
			}
		}
	}
	return found
}

// proseLines returns the lines of a document with those of fenced blocks emptied.
func proseLines(src string) []string {
	lines := strings.Split(src, "\n")
	fenced := false
	for i, line := range lines {
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		if fence {
			fenced = !fenced
		}
		if fence || fenced {
			lines[i] = ""
		}
	}
	return lines
}

// brokenLink says why the link of document from leads nowhere, or "".
func brokenLink(files tree, from, target string) string {
	if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
		return ""
	}
	file, anchor, _ := strings.Cut(target, "#")
	to := from
	if file != "" {
		to = path.Join(path.Dir(from), file)
	}
	src, isFile := files[to]
	if !isFile && !isFolder(files, to) {
		return "no such file"
	}
	if anchor == "" || path.Ext(to) != ".md" {
		return ""
	}
	for _, line := range proseLines(string(src)) {
		if heading := strings.TrimLeft(line, "#"); heading != line && slug(heading) == anchor {
			return ""
		}
	}
	return "no such heading in " + to
}

func isFolder(files tree, dir string) bool {
	for name := range files {
		if strings.HasPrefix(name, dir+"/") {
			return true
		}
	}
	return false
}

// slug turns a heading into the anchor that code hosts give it: lower case, spaces to
// hyphens, punctuation dropped.
func slug(heading string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(strings.TrimSpace(heading)) {
		switch {
		case r == ' ':
			b.WriteByte('-')
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			b.WriteRune(r)
		}
	}
	return b.String()
}
