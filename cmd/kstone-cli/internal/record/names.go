package record

import "fmt"

// names finds repeated names of one object. A few are compared one by one, many go
// into a map, so that an object of a million names does not take forever. The names
// are views into the parser's output, which only grows.
type names struct {
	few  [16][]byte
	n    int
	many map[string]struct{}
}

func (n *names) add(name []byte) error {
	_, repeated := n.many[string(name)]
	for _, other := range n.few[:n.n] {
		repeated = repeated || string(other) == string(name)
	}
	switch {
	case repeated:
		return fmt.Errorf("the field %s appears twice", AppendString(nil, Text(name)))
	case n.many != nil:
		n.many[string(name)] = struct{}{}
	case n.n < len(n.few):
		n.few[n.n] = name
		n.n++
	default:
		n.many = map[string]struct{}{string(name): {}}
		for _, other := range n.few {
			n.many[string(other)] = struct{}{}
		}
		n.n = 0
	}
	return nil
}
